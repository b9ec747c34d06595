#pragma once

namespace llmd::http {

/// The number of grpc-status that an HTTP status of ours means to a gRPC client (the table of
/// docs/router.md); 2 (UNKNOWN) for statuses without a meaning there.
int grpc_status(int http_status);

}  // namespace llmd::http
