#include "server/rpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/names.h"

namespace chorale {
namespace {

namespace pb = google::protobuf;
using grpc::reflection::v1::ErrorResponse;
using grpc::reflection::v1::ExtensionRequest;
using grpc::reflection::v1::FileDescriptorResponse;
using grpc::reflection::v1::ListServiceResponse;
using ReflectionRequest = grpc::reflection::v1::ServerReflectionRequest;
using ReflectionResponse = grpc::reflection::v1::ServerReflectionResponse;

const pb::DescriptorPool& Pool() { return *pb::DescriptorPool::generated_pool(); }

void SetNotFound(const std::string& name, ReflectionResponse* response) {
  ErrorResponse* const error = response->mutable_error_response();
  error->set_error_code(static_cast<int>(absl::StatusCode::kNotFound));
  error->set_error_message(absl::StrCat("the server has no ", QuoteName(name)));
}

// Adds the file and the files that it imports, directly or indirectly, each once.
void AddFile(const pb::FileDescriptor& file, absl::flat_hash_set<std::string>* added,
             FileDescriptorResponse* response) {
  if (!added->insert(std::string(file.name())).second) return;
  pb::FileDescriptorProto message;
  file.CopyTo(&message);
  response->add_file_descriptor_proto(message.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, response);
}

void AnswerFile(const pb::FileDescriptor* file, const std::string& name,
                ReflectionResponse* response) {
  if (file == nullptr) {
    SetNotFound(name, response);
    return;
  }
  absl::flat_hash_set<std::string> added;
  AddFile(*file, &added, response->mutable_file_descriptor_response());
}

void AnswerExtension(const ExtensionRequest& request, ReflectionResponse* response) {
  const pb::Descriptor* const type = Pool().FindMessageTypeByName(request.containing_type());
  const pb::FieldDescriptor* const extension =
      type == nullptr ? nullptr : Pool().FindExtensionByNumber(type, request.extension_number());
  AnswerFile(extension == nullptr ? nullptr : extension->file(), request.containing_type(),
             response);
}

void AnswerExtensionNumbers(const std::string& type_name, ReflectionResponse* response) {
  const pb::Descriptor* const type = Pool().FindMessageTypeByName(type_name);
  if (type == nullptr) {
    SetNotFound(type_name, response);
    return;
  }
  std::vector<const pb::FieldDescriptor*> extensions;
  Pool().FindAllExtensions(type, &extensions);
  auto* const numbers = response->mutable_all_extension_numbers_response();
  numbers->set_base_type_name(type_name);
  for (const pb::FieldDescriptor* const extension : extensions) {
    numbers->add_extension_number(extension->number());
  }
}

void AnswerServices(ListServiceResponse* response) {
  for (const char* const service : {"chorale.v1.Chorale", "grpc.health.v1.Health"}) {
    response->add_service()->set_name(service);
  }
  for (const char* const package : kReflectionPackages) {
    response->add_service()->set_name(absl::StrCat(package, ".ServerReflection"));
  }
}

}  // namespace

ReflectionResponse AnswerReflection(const ReflectionRequest& request) {
  ReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ReflectionRequest::kFileByFilename:
      AnswerFile(Pool().FindFileByName(request.file_by_filename()), request.file_by_filename(),
                 &response);
      break;
    case ReflectionRequest::kFileContainingSymbol:
      AnswerFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                 request.file_containing_symbol(), &response);
      break;
    case ReflectionRequest::kFileContainingExtension:
      AnswerExtension(request.file_containing_extension(), &response);
      break;
    case ReflectionRequest::kAllExtensionNumbersOfType:
      AnswerExtensionNumbers(request.all_extension_numbers_of_type(), &response);
      break;
    case ReflectionRequest::kListServices:
      AnswerServices(response.mutable_list_services_response());
      break;
    case ReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      ErrorResponse* const error = response.mutable_error_response();
      error->set_error_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
      error->set_error_message("message_request: must be set");
      break;
  }
  return response;
}

}  // namespace chorale
