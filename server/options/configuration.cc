#include "server/options/configuration.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/config/config_file.h"
#include "server/config/environment_variables.h"
#include "server/options/flags.h"
#include "server/process/reload_trigger.h"

namespace chorale {
namespace {

constexpr char kConfigVariable[] = "CHORALE_CONFIG";

absl::Status ApplyEntry(const std::string& file, const ConfigEntry& entry, FlagOrigins* origins) {
  const std::string origin = absl::StrCat(file, ": ", entry.name);
  if (!IsConfigurable(entry.name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        origin, " is not a flag that a file can set; chorale-server --help lists all flags"));
  }
  if (entry.kind == ConfigEntry::Kind::kList) {
    if (!TakesList(entry.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, " must be a single value, not a list"));
    }
    for (const std::string& value : entry.values) {
      if (!absl::StrContains(value, ',')) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          origin, ": \"", value, "\" is an item of a list and must not contain a comma"));
    }
  }
  return SetFlag(entry.name, absl::StrJoin(entry.values, ","), origin, origins);
}

// Returns how many entries it has. Fails if it cannot be read.
absl::StatusOr<int64_t> ApplyFile(const std::string& file, int64_t entries_before,
                                  FlagOrigins* origins, Mistakes* mistakes) {
  absl::StatusOr<std::vector<ConfigEntry>> entries = ReadConfigFile(file, entries_before);
  if (!entries.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--config: ", entries.status().message()));
  }
  for (const ConfigEntry& entry : *entries) mistakes->Add(ApplyEntry(file, entry, origins));
  return static_cast<int64_t>(entries->size());
}

void ApplyEnvironment(const std::vector<FlagVariable>& variables, FlagOrigins* origins,
                      std::vector<std::string>* unknown, Mistakes* mistakes) {
  for (const FlagVariable& variable : variables) {
    if (IsConfigurable(variable.flag)) {
      mistakes->Add(SetFlag(variable.flag, variable.value, variable.variable, origins));
    } else if (variable.variable != kConfigVariable && !IsForeignVariable(variable.variable)) {
      unknown->push_back(variable.variable);
    }
  }
}

// The file that the command line or else the environment names. Sets flags.
std::string FindFile(const std::vector<std::string>& arguments,
                     const std::vector<FlagVariable>& variables) {
  (void)ParseFlags(arguments);  // once more when the file is applied, with its mistakes
  std::string file = ConfigFile();
  for (const FlagVariable& variable : variables) {
    if (file.empty() && variable.variable == kConfigVariable) file = variable.value;
  }
  return file;
}

// Fills what the configuration has beside options and values. `file_entries` is that of the one
// before. False if the file cannot be read: what is missing then is no mistake of its own.
bool Apply(const ConfigurationSources& sources, FlagOrigins* origins, Configuration* configuration,
           Mistakes* mistakes) {
  const std::vector<FlagVariable> variables = FlagVariables(sources.environment);
  ResetFlags();
  configuration->file = FindFile(sources.arguments, variables);
  configuration->file_version = FileVersion(configuration->file);
  ResetFlags();
  bool has_file = true;
  if (!configuration->file.empty()) {
    const absl::StatusOr<int64_t> entries =
        ApplyFile(configuration->file, configuration->file_entries, origins, mistakes);
    mistakes->Add(entries.status());
    has_file = entries.ok();
    if (has_file) configuration->file_entries = *entries;
  }
  ApplyEnvironment(variables, origins, &configuration->unknown_variables, mistakes);
  mistakes->Add(ParseFlags(sources.arguments, origins).status());
  return has_file;
}

}  // namespace

absl::StatusOr<ListenTarget> LoadListenTarget(const ConfigurationSources& sources) {
  FlagOrigins origins;
  Configuration configuration;
  Mistakes mistakes;
  Apply(sources, &origins, &configuration, &mistakes);
  RETURN_IF_ERROR(mistakes.ToStatus());
  return ListenTargetOfFlags();
}

absl::StatusOr<Configuration> LoadConfiguration(const ConfigurationSources& sources,
                                                int64_t file_entries_before) {
  Mistakes mistakes;
  Configuration configuration = ReadConfiguration(sources, file_entries_before, &mistakes);
  RETURN_IF_ERROR(mistakes.ToStatus());
  return configuration;
}

Configuration ReadConfiguration(const ConfigurationSources& sources, int64_t file_entries_before,
                                Mistakes* mistakes) {
  Configuration configuration;
  configuration.file_entries = file_entries_before;
  FlagOrigins origins;
  const bool has_file = Apply(sources, &origins, &configuration, mistakes);
  Mistakes of_options;
  configuration.options = OptionsFromFlags(origins, &of_options);
  if (has_file) mistakes->Add(of_options.ToStatus());
  configuration.values = FlagValues();
  return configuration;
}

}  // namespace chorale
