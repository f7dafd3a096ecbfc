#include "server/check_server.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/process/health_services.h"

namespace chorale {
namespace {

// HealthCheckRequest: field 1, service. HealthCheckResponse: field 1, status; 1 is SERVING.
std::string HealthRequest() {
  const std::string service = kReadinessService;
  return absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
}
constexpr absl::string_view kServing = "\x08\x01";

// The address to call for an address to listen on. Both wildcards also accept IPv4, and [::1] may
// be missing where 127.0.0.1 exists, as in containers without IPv6.
std::string TargetOf(const std::string& listen_address) {
  absl::string_view port = listen_address;
  if (absl::ConsumePrefix(&port, "0.0.0.0:") || absl::ConsumePrefix(&port, "[::]:")) {
    return absl::StrCat("127.0.0.1:", port);
  }
  return listen_address;
}

std::shared_ptr<grpc::ChannelCredentials> Credentials(bool tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

// One call, whose answer is in `response`.
grpc::Status AskHealth(const std::string& target, bool tls, absl::Duration timeout,
                       std::string* response) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  grpc::GenericStub stub(grpc::CreateCustomChannel(target, Credentials(tls), arguments));
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
  const grpc::Slice slice(HealthRequest());
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer bytes;
  grpc::Status status;
  call->StartCall();
  call->Finish(&bytes, &status, &bytes);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice whole;
  if (status.ok() && bytes.DumpToSingleSlice(&whole).ok()) {
    response->assign(reinterpret_cast<const char*>(whole.begin()), whole.size());
  }
  return status;
}

}  // namespace

absl::Status CheckServer(const ListenTarget& listen, absl::Duration timeout) {
  const std::string& listen_address = listen.address;
  if (absl::EndsWith(listen_address, ":0")) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot check ", listen_address,
                     ": port 0 selects a free port when the server starts; set the server's port "
                     "in --listen_address"));
  }
  const std::string target = TargetOf(listen_address);
  std::string response;
  const grpc::Status status = AskHealth(target, listen.tls, timeout, &response);
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no answer from ", target, ": ", status.error_message()));
  }
  if (response != kServing) {
    return absl::UnavailableError(
        absl::StrCat(target, " is not ready: the server is starting or draining"));
  }
  return absl::OkStatus();
}

}  // namespace chorale
