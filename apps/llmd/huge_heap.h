#pragma once

#include <functional>

namespace llmd {

/// Runs `work` with a heap on huge pages, as far as the system gives any (transparent huge pages
/// set to `always` or `madvise`), and returns what it returns.
///
/// What a request touches is spread over the heap. At low rates, or where other work shares the
/// core, the translations of all those pages have left the TLB when the next request comes; a few
/// huge pages are found again at once. Costs memory: each thread that allocates has 2 MiB at least.
int with_huge_heap(const std::function<int()>& work);

}  // namespace llmd
