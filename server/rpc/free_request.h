// Frees the content of a request before its call ends.
#ifndef CHORALE_SERVER_RPC_FREE_REQUEST_H_
#define CHORALE_SERVER_RPC_FREE_REQUEST_H_

namespace chorale {

// gRPC keeps a request until its call ends, and the client decides when that is. Parsing expands a
// message: an empty field of two bytes takes about sixty, so 4 MiB can become 130 MiB for every
// call that is queued or not read. So a handler frees its request as soon as it has decoded it.
template <typename Request>
void FreeRequest(const Request* request) {
  // gRPC's object is not const, and gRPC only destroys it. Clear() would keep the memory.
  Request().Swap(const_cast<Request*>(request));
}

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_FREE_REQUEST_H_
