// Ends the life of a request's content before that of its call.
#ifndef CHORALE_SERVER_RPC_FREE_REQUEST_H_
#define CHORALE_SERVER_RPC_FREE_REQUEST_H_

namespace chorale {

// gRPC keeps a request until its call ends, and a client decides how long that takes. Two bytes of
// an empty field, known or not, are some sixty once they are parsed: 4 MiB are 130 MiB, for each
// call that waits or that nobody reads. So a handler frees its request when it has decoded it.
template <typename Request>
void FreeRequest(const Request* request) {
  // The object is gRPC's own, not const, and gRPC only destroys it. Clear would keep its memory.
  Request().Swap(const_cast<Request*>(request));
}

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_FREE_REQUEST_H_
