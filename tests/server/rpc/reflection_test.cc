#include "server/rpc/reflection.h"

#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAreArray;

using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// The names of the files in a response, each once.
std::vector<std::string> Files(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.emplace_back(file.name());
  }
  return names;
}

// chorale.proto and its imports.
const std::vector<std::string> kApiFiles = {"chorale/v1/chorale.proto",
                                            "google/api/annotations.proto",
                                            "google/api/client.proto",
                                            "google/api/field_behavior.proto",
                                            "google/api/http.proto",
                                            "google/api/resource.proto",
                                            "google/protobuf/descriptor.proto",
                                            "google/protobuf/duration.proto",
                                            "google/protobuf/empty.proto",
                                            "google/protobuf/timestamp.proto"};

TEST(ReflectionTest, ListsServices) {
  ServerReflectionRequest request;
  request.set_host("h");
  request.set_list_services("*");
  const ServerReflectionResponse response = AnswerReflection(request);
  EXPECT_EQ(response.valid_host(), "h");
  EXPECT_EQ(response.original_request().list_services(), "*");
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("chorale.v1.Chorale", "grpc.health.v1.Health",
                                 "grpc.reflection.v1.ServerReflection",
                                 "grpc.reflection.v1alpha.ServerReflection"));
}

TEST(ReflectionTest, DescribesSymbolsWithTheFilesThatTheyNeed) {
  for (const char* symbol : {"chorale.v1.Chorale", "chorale.v1.Chorale.Sample",
                             "chorale.v1.Context", "chorale.v1.Context.name"}) {
    ServerReflectionRequest request;
    request.set_file_containing_symbol(symbol);
    EXPECT_THAT(Files(AnswerReflection(request)), UnorderedElementsAreArray(kApiFiles)) << symbol;
  }
  ServerReflectionRequest request;
  request.set_file_containing_symbol("grpc.reflection.v1.ServerReflection");
  EXPECT_THAT(Files(AnswerReflection(request)), ElementsAre("grpc/reflection/v1/reflection.proto"));
}

TEST(ReflectionTest, FindsFilesByName) {
  ServerReflectionRequest request;
  request.set_file_by_filename("google/protobuf/duration.proto");
  EXPECT_THAT(Files(AnswerReflection(request)), ElementsAre("google/protobuf/duration.proto"));
}

TEST(ReflectionTest, FindsExtensions) {
  constexpr int kHttp = 72295728;  // google.api.http
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("google.protobuf.MethodOptions");
  const ServerReflectionResponse numbers = AnswerReflection(request);
  EXPECT_EQ(numbers.all_extension_numbers_response().base_type_name(),
            "google.protobuf.MethodOptions");
  EXPECT_THAT(numbers.all_extension_numbers_response().extension_number(), Contains(kHttp));
  request.mutable_file_containing_extension()->set_containing_type("google.protobuf.MethodOptions");
  request.mutable_file_containing_extension()->set_extension_number(kHttp);
  EXPECT_THAT(Files(AnswerReflection(request)),
              IsSupersetOf({"google/api/annotations.proto", "google/api/http.proto"}));
}

TEST(ReflectionTest, UnknownNamesAreNotFound) {
  std::vector<ServerReflectionRequest> requests(4);
  requests[0].set_file_by_filename("nothing.proto");
  requests[1].set_file_containing_symbol("nothing.Service");
  requests[2].set_all_extension_numbers_of_type("nothing.Message");
  requests[3].mutable_file_containing_extension()->set_containing_type("chorale.v1.Context");
  requests[3].mutable_file_containing_extension()->set_extension_number(1);
  for (const ServerReflectionRequest& request : requests) {
    const ServerReflectionResponse response = AnswerReflection(request);
    EXPECT_EQ(response.error_response().error_code(), 5) << request.DebugString();
    EXPECT_FALSE(response.error_response().error_message().empty());
  }
  EXPECT_EQ(AnswerReflection(ServerReflectionRequest()).error_response().error_code(), 3);
}

}  // namespace
}  // namespace chorale
