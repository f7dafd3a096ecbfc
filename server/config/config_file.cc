#include "server/config/config_file.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "server/config/file_text.h"
#include "server/config/yaml_document.h"
#include "yaml-cpp/yaml.h"

namespace chorale {
namespace {

absl::Status InvalidFile(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<ConfigEntry> ReadEntry(const std::string& path, const YAML::Node& key,
                                      const YAML::Node& value) {
  if (!key.IsScalar()) {
    return InvalidFile(path,
                       absl::StrCat("line ", key.Mark().line + 1, ": a key must be a flag name"));
  }
  ConfigEntry entry;
  entry.name = key.Scalar();
  if (value.IsScalar()) {
    entry.values.push_back(value.Scalar());
    return entry;
  }
  if (value.IsNull()) {
    return InvalidFile(path,
                       absl::StrCat(entry.name, " has no value; use \"\" for an empty value"));
  }
  if (!value.IsSequence()) {
    return InvalidFile(path, absl::StrCat(entry.name, " must be a value or a list of values"));
  }
  entry.kind = ConfigEntry::Kind::kList;
  for (const YAML::Node& item : value) {
    if (!item.IsScalar()) {
      return InvalidFile(
          path, absl::StrCat(entry.name, ": each item of the list must be a single value"));
    }
    entry.values.push_back(item.Scalar());
  }
  return entry;
}

// May throw what yaml-cpp throws.
absl::StatusOr<std::vector<ConfigEntry>> ReadDocument(const std::string& path,
                                                      const std::string& text) {
  const absl::StatusOr<YAML::Node> document = LoadYamlDocument(text);
  if (document.ok() && document->IsNull()) return std::vector<ConfigEntry>();
  if (!document.ok() || !document->IsMap()) {
    return InvalidFile(path, "must be a map of flag names to values");
  }
  std::vector<ConfigEntry> entries;
  std::set<std::string> names;
  for (const auto& pair : *document) {
    ASSIGN_OR_RETURN(ConfigEntry entry, ReadEntry(path, pair.first, pair.second));
    if (!names.insert(entry.name).second) {
      return InvalidFile(path, absl::StrCat(entry.name, " is set twice"));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path,
                                                        int64_t entries_before) {
  ASSIGN_OR_RETURN(const std::string text, ReadFileText(path));
  absl::StatusOr<std::vector<ConfigEntry>> entries = std::vector<ConfigEntry>();
  try {
    if (!text.empty()) entries = ReadDocument(path, text);
  } catch (const YAML::Exception& error) {
    return InvalidFile(path, absl::StrCat("line ", error.mark.line + 1, ": ", error.msg));
  }
  RETURN_IF_ERROR(entries.status());
  RETURN_IF_ERROR(CheckEmptied(path, text, static_cast<int64_t>(entries->size()), entries_before));
  return entries;
}

std::string FormatConfig(const std::vector<std::pair<std::string, std::string>>& values,
                         const std::set<std::string, std::less<>>& given) {
  std::string text;
  for (const auto& [name, value] : values) {
    YAML::Emitter out;
    out << YAML::BeginMap << YAML::Key << name << YAML::Value << value << YAML::EndMap;
    const char* const prefix = given.contains(name) ? "" : "# ";
    for (const absl::string_view line : absl::StrSplit(out.c_str(), '\n')) {
      absl::StrAppend(&text, prefix, line, "\n");
    }
  }
  return text;
}

}  // namespace chorale
