#include "tests/support/error_reasons.h"

#include <fstream>
#include <regex>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "tests/golden/source_folder.h"

namespace chorale {
namespace {

std::map<std::string, std::string> ReadReasons() {
  std::ifstream file(SourceFolder() + "/proto/chorale/v1/chorale.proto");
  std::map<std::string, std::string> reasons;
  const std::regex code_line("//   ([A-Z_]+)");
  const std::regex reason_line("//     ([A-Z_]+)  +\\S.*");
  std::string line;
  std::string code;
  std::smatch match;
  while (std::getline(file, line) && !absl::StartsWith(line, "// Reasons, by status code.")) {
  }
  while (std::getline(file, line) && !absl::StartsWith(line, "// If there is no more specific")) {
    if (std::regex_match(line, match, code_line)) code = match[1];
    if (std::regex_match(line, match, reason_line)) reasons[match[1]] = code;
  }
  // The reasons that are names of codes follow until the end of the paragraph.
  std::ostringstream names;
  do {
    names << line << ' ';
  } while (std::getline(file, line) && line != "//");
  const std::string paragraph = names.str();
  const std::regex name("[A-Z_]{3,}");
  for (std::sregex_iterator it(paragraph.begin(), paragraph.end(), name), end; it != end; ++it) {
    reasons[it->str()] = it->str();
  }
  return reasons;
}

// Whether an error without details may come from the transport: from the library of the client, or
// for a call that the server ended through gRPC.
bool MayBeOfTransport(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return true;
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::StrContains(status.error_message(), "ompress");
    default:
      return false;
  }
}

void Check(const grpc::Status& status, UndocumentedReasons undocumented) {
  if (status.ok() || (status.error_details().empty() && MayBeOfTransport(status))) return;
  const std::string reason = ReasonOf(status);
  const std::string code =
      absl::StatusCodeToString(static_cast<absl::StatusCode>(status.error_code()));
  if (undocumented == UndocumentedReasons::kNamesOfCodes && reason == code) return;
  const auto documented = DocumentedReasons().find(reason);
  if (documented == DocumentedReasons().end()) {
    ADD_FAILURE() << code << " has the reason '" << reason
                  << "', which chorale.proto does not contain: " << status.error_message();
  } else {
    EXPECT_EQ(documented->second, code) << reason << ": " << status.error_message();
  }
}

class ReasonChecker final : public grpc::experimental::Interceptor {
 public:
  explicit ReasonChecker(UndocumentedReasons undocumented) : undocumented_(undocumented) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::POST_RECV_STATUS)) {
      Check(*methods->GetRecvStatus(), undocumented_);
    }
    methods->Proceed();
  }

 private:
  const UndocumentedReasons undocumented_;
};

class ReasonCheckerFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit ReasonCheckerFactory(UndocumentedReasons undocumented) : undocumented_(undocumented) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* info) override {
    // gRPC's own service has no reasons.
    if (absl::StartsWith(info->method(), "/grpc.health.")) return nullptr;
    return new ReasonChecker(undocumented_);
  }

 private:
  const UndocumentedReasons undocumented_;
};

}  // namespace

const std::map<std::string, std::string>& DocumentedReasons() {
  static const auto* const reasons = new std::map<std::string, std::string>(ReadReasons());
  return *reasons;
}

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "";
  google::rpc::ErrorInfo info;
  for (const google::protobuf::Any& detail : details.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> CheckReasons(
    UndocumentedReasons undocumented) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<ReasonCheckerFactory>(undocumented));
  return factories;
}

}  // namespace chorale
