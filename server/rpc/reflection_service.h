// gRPC's reflection service.
#ifndef CHORALE_SERVER_RPC_REFLECTION_SERVICE_H_
#define CHORALE_SERVER_RPC_REFLECTION_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <deque>
#include <string>

namespace chorale {

// Serves grpc.reflection.v1 and grpc.reflection.v1alpha. It replaces the service of gRPC's library,
// which in version 1.51 has only v1alpha, keeps the last request of each idle stream in memory in
// parsed form, and occupies a thread for each stream.
//
// The service is not part of the API: it identifies no callers, and its calls are neither logged
// nor counted. Thread-safe.
class ReflectionService final : public grpc::Service {
 public:
  ReflectionService();

 private:
  std::deque<std::string> names_;  // of the methods; gRPC keeps pointers
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_REFLECTION_SERVICE_H_
