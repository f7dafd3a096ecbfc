// chorale info
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"

namespace chorale::client {
namespace {

std::vector<std::string> FeatureNames(const v1::ServerInfo& info) {
  std::vector<std::string> names;
  for (const int feature : info.features()) {
    // A newer server may have features without a name.
    if (!v1::ServerInfo::Feature_IsValid(feature)) continue;
    absl::string_view name =
        v1::ServerInfo::Feature_Name(static_cast<v1::ServerInfo::Feature>(feature));
    absl::ConsumePrefix(&name, "FEATURE_");
    names.push_back(absl::AsciiStrToLower(name));
  }
  return names;
}

struct NamedNumber {
  std::string name;
  int64_t number;
};

// The fields of ServerLimits or TenantQuotas, which are int64.
std::vector<NamedNumber> Numbers(const google::protobuf::Message& message) {
  const google::protobuf::Descriptor& descriptor = *message.GetDescriptor();
  std::vector<NamedNumber> numbers;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = descriptor.field(i);
    numbers.push_back(
        {std::string(field->name()), message.GetReflection()->GetInt64(message, field)});
  }
  return numbers;
}

Cell CellOf(const NamedNumber& number) {
  return absl::EndsWith(number.name, "_bytes") ? Cell(Bytes{number.number}) : Cell(number.number);
}

nlohmann::ordered_json Json(const google::protobuf::Message& message) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const NamedNumber& each : Numbers(message)) object[each.name] = each.number;
  return object;
}

nlohmann::ordered_json Json(const v1::ServerInfo& info) {
  return {{"version", info.version()},      {"commit", info.commit()},
          {"backend", info.backend()},      {"device", info.device()},
          {"features", FeatureNames(info)}, {"limits", Json(info.limits())},
          {"quotas", Json(info.quotas())}};
}

void WriteInfo(const v1::ServerInfo& info, Format format, std::ostream* out) {
  ReportWriter report({"name", "value"}, format, out);
  report.Add({std::string("version"), info.version()});
  report.Add({std::string("commit"), info.commit()});
  report.Add({std::string("backend"), info.backend()});
  report.Add({std::string("device"), info.device()});
  report.Add({std::string("features"), absl::StrJoin(FeatureNames(info), " ")});
  for (const NamedNumber& limit : Numbers(info.limits())) {
    report.Add({limit.name, CellOf(limit)});
  }
  for (const NamedNumber& quota : Numbers(info.quotas())) {
    report.Add({absl::StrCat("tenant_", quota.name), quota.number > 0 ? CellOf(quota) : Cell()});
  }
  report.Finish();
}

absl::Status RunInfo(const NoArguments&, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(v1::ServerInfo info, client->GetServerInfo(environment->call()));
  const Format format = environment->format(Environment::Readers::kPeople);
  return environment->Write([&](std::ostream& out) {
    if (format == Format::kJson) {
      out << Json(info).dump(1) << '\n';
    } else {
      WriteInfo(info, format, &out);
    }
  });
}

}  // namespace

void AddInfoCommand(CLI::App* app, Environment* environment) {
  CLI::App* command = AddCommand(app, environment, "info",
                                 "Show the version, device, limits and features of the server",
                                 std::make_shared<NoArguments>(), RunInfo);
  command->footer("Names that begin with tenant_ are quotas of the caller's tenant.");
}

}  // namespace chorale::client
