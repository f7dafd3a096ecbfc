// The gRPC service: decodes requests, passes them to the engine and sends the responses.
#ifndef CHORALE_SERVER_RPC_CHORALE_SERVICE_H_
#define CHORALE_SERVER_RPC_CHORALE_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "chorale/v1/chorale.grpc.pb.h"
#include "server/rpc/service_environment.h"

namespace chorale {

// Each method starts a reactor and returns without blocking. unary_reactor.h, register_reactor.h
// and sample_reactor.h describe the reactors' life cycles.
//
// Thread-safe.
class ChoraleService final : public v1::Chorale::CallbackService {
 public:
  // The environment must outlive the service.
  explicit ChoraleService(const ServiceEnvironment* environment) : environment_(*environment) {}

  grpc::ServerReadReactor<v1::RegisterContextRequest>* RegisterContext(
      grpc::CallbackServerContext* context, v1::RegisterContextResponse* response) override;
  grpc::ServerUnaryReactor* GetContext(grpc::CallbackServerContext* context,
                                       const v1::GetContextRequest* request,
                                       v1::Context* response) override;
  grpc::ServerUnaryReactor* ListContexts(grpc::CallbackServerContext* context,
                                         const v1::ListContextsRequest* request,
                                         v1::ListContextsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteContext(grpc::CallbackServerContext* context,
                                          const v1::DeleteContextRequest* request,
                                          google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* WarmContext(grpc::CallbackServerContext* context,
                                        const v1::WarmContextRequest* request,
                                        v1::Context* response) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;
  grpc::ServerWriteReactor<v1::SampleResponse>* Sample(grpc::CallbackServerContext* context,
                                                       const v1::SampleRequest* request) override;
  grpc::ServerUnaryReactor* LogDensity(grpc::CallbackServerContext* context,
                                       const v1::LogDensityRequest* request,
                                       v1::LogDensityResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;

 private:
  const ServiceEnvironment& environment_;
};

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_CHORALE_SERVICE_H_
