#include "gzip.h"

#include "base/check.h"

#include <algorithm>
#include <zlib.h>

namespace llmd::grpc {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, behind a gzip header

/// Owns zlib's state, about 40 kB.
struct Inflater {
  z_stream state{};
  Inflater() { CHECK(inflateInit2(&state, kGzipWindow) == Z_OK); }
  ~Inflater() { inflateEnd(&state); }
};

}  // namespace

Inflated inflate_gzip(std::string_view compressed, size_t bytes_max, io::BufferPool& buffers,
                      io::BudgetShare& share, io::Buffer& out) {
  Inflater inflater;
  z_stream& z = inflater.state;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  z.avail_in = static_cast<uInt>(compressed.size());
  out = buffers.take();
  for (;;) {
    if (out.room_size() == 0) out.reserve_room(1);
    if (!share.resize(out.capacity())) return Inflated::kNoMemory;
    const size_t room = std::min(out.room_size(), bytes_max + 1 - out.size());
    z.next_out = reinterpret_cast<Bytef*>(out.room());
    z.avail_out = static_cast<uInt>(room);
    const int result = inflate(&z, Z_NO_FLUSH);
    out.commit(room - z.avail_out);
    if (out.size() > bytes_max) return Inflated::kTooLarge;
    if (result == Z_STREAM_END) return z.avail_in == 0 ? Inflated::kWhole : Inflated::kMalformed;
    if (result != Z_OK || (z.avail_in == 0 && z.avail_out > 0)) return Inflated::kMalformed;
  }
}

}  // namespace llmd::grpc
