#include "client/cli/context_report.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/command_line.h"
#include "client/cli/printable.h"
#include "client/cpp/data_frame.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {
namespace {

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  const absl::Time time = absl::FromUnixSeconds(timestamp.seconds());
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

std::string Created(const v1::Context& context) { return TimeText(context.create_time()); }

std::string LastUsed(const v1::Context& context) {
  return context.has_last_use_time() ? TimeText(context.last_use_time()) : "";
}

std::string Expires(const v1::Context& context) {
  return context.has_expire_time() ? TimeText(context.expire_time()) : "";
}

// Sorted by key, unlike the labels in the message.
std::map<std::string, std::string> LabelsOf(const v1::Context& context) {
  return {context.labels().begin(), context.labels().end()};
}

// A value of an enum without the prefix of its enum, in lower case.
std::string ValueName(absl::string_view prefix, absl::string_view value) {
  absl::ConsumePrefix(&value, prefix);
  return absl::AsciiStrToLower(value);
}

std::string StateName(const v1::Context& context) {
  return ValueName("STATE_", v1::Context::State_Name(context.state()));
}

// For programs.
std::string KindName(const v1::ColumnSummary& feature) {
  return ValueName("TYPE_", v1::ColumnSummary::Type_Name(feature.type()));
}

// For people, the meaning of the numbers is part of the type.
std::string TypeNameOf(const v1::ColumnSummary& feature) {
  const Meaning meaning = DecodeMeaning(feature.meaning());
  return meaning == Meaning::kNumber ? KindName(feature) : MeaningName(meaning);
}

const char* MeaningOf(const v1::ColumnSummary& feature) {
  const Meaning meaning = DecodeMeaning(feature.meaning());
  return meaning == Meaning::kNumber ? "" : MeaningName(meaning);
}

// "merge", "heavy" or "sample"; empty if the context has no memory set, or if its policy is that of
// a newer server.
std::string PolicyName(const v1::Context& context) {
  if (context.memory_row_count() == 0) return "";
  return ValueName("MEMORY_POLICY_", v1::MemoryPolicy_Name(context.memory_policy()));
}

// REQUIRES: the context was registered with a memory set.
std::string MemorySetText(const v1::Context& context) {
  const int64_t keys = context.memory_row_count();
  const int64_t rows = context.row_count();
  if (keys >= rows) {
    return absl::StrCat("memory set: none (", keys, " keys, but only ", rows, " rows)");
  }
  return absl::StrCat("memory set: ", keys, " keys, policy ", PolicyName(context));
}

void AddRow(const v1::Context& context, ReportWriter* report) {
  report->Add({IdOf(context.name()), IdOf(context.model()), context.target_column(),
               context.row_count(), int64_t{context.feature_count()}, StateName(context),
               Bytes{context.resident_bytes()}, Bytes{context.dataset_bytes()}, Created(context),
               context.memory_row_count(), context.appended_row_count()});
}

const std::vector<std::string> kColumns = {
    "name",           "model",         "target",  "rows",        "features",     "state",
    "resident_bytes", "dataset_bytes", "created", "memory_rows", "appended_rows"};

// "weekday", "hour", "day_of_month", "month"; other features, of a newer server, are omitted.
std::vector<std::string> CalendarNames(const v1::ColumnSummary& feature) {
  std::vector<std::string> names;
  for (const int calendar : feature.calendar_features()) {
    switch (calendar) {
      case v1::ColumnSummary::CALENDAR_FEATURE_WEEKDAY:
        names.emplace_back("weekday");
        break;
      case v1::ColumnSummary::CALENDAR_FEATURE_HOUR:
        names.emplace_back("hour");
        break;
      case v1::ColumnSummary::CALENDAR_FEATURE_DAY_OF_MONTH:
        names.emplace_back("day_of_month");
        break;
      case v1::ColumnSummary::CALENDAR_FEATURE_MONTH:
        names.emplace_back("month");
        break;
      default:
        break;
    }
  }
  return names;
}

nlohmann::ordered_json Json(const v1::Context& context) {
  nlohmann::ordered_json features = nlohmann::ordered_json::array();
  for (const v1::ColumnSummary& feature : context.features()) {
    features.push_back({{"name", feature.name()},
                        {"type", KindName(feature)},
                        {"meaning", MeaningOf(feature)},
                        {"categories", feature.category_count()},
                        {"missing", feature.missing_count()},
                        {"outliers", feature.outlier_count()},
                        {"dropped", feature.dropped()},
                        {"season_steps", feature.season_steps()},
                        {"calendar", CalendarNames(feature)}});
  }
  return {{"name", IdOf(context.name())},
          {"model", IdOf(context.model())},
          {"target", context.target_column()},
          {"rows", context.row_count()},
          {"appended_rows", context.appended_row_count()},
          {"memory_rows", context.memory_row_count()},
          {"memory_policy", PolicyName(context)},
          {"state", StateName(context)},
          {"resident_bytes", context.resident_bytes()},
          {"dataset_bytes", context.dataset_bytes()},
          {"created", Created(context)},
          {"updated", TimeText(context.update_time())},
          {"last_used", LastUsed(context)},
          {"expires", Expires(context)},
          {"description", context.description()},
          {"labels", LabelsOf(context)},
          {"etag", context.etag()},
          {"digest", context.digest()},
          {"clipped_targets", context.clipped_target_count()},
          {"features", std::move(features)}};
}

}  // namespace

void WriteFeatures(const v1::Context& context, std::ostream* out) {
  ReportWriter report({"feature", "type", "categories", "missing", "outliers", "dropped"},
                      Format::kTable, out);
  for (const v1::ColumnSummary& feature : context.features()) {
    const bool categorical = feature.type() == v1::ColumnSummary::TYPE_CATEGORICAL;
    report.Add({feature.name(), TypeNameOf(feature),
                categorical ? Cell(int64_t{feature.category_count()}) : Cell(),
                int64_t{feature.missing_count()}, int64_t{feature.outlier_count()},
                std::string(feature.dropped() ? "yes" : "")});
  }
  report.Finish();
}

absl::Status WriteContexts(const std::vector<v1::Context>& contexts, Environment* environment) {
  return environment->Write([&](std::ostream& out) {
    ReportWriter report(kColumns, environment->format(Environment::Readers::kPeople), &out);
    for (const v1::Context& context : contexts) AddRow(context, &report);
    report.Finish();
  });
}

absl::Status WriteContext(const v1::Context& context, Environment* environment) {
  const Format format = environment->format(Environment::Readers::kPeople);
  return environment->Write([&](std::ostream& out) {
    if (format == Format::kJson) {
      out << Json(context).dump(1) << '\n';
      return;
    }
    ReportWriter report(kColumns, format, &out);
    AddRow(context, &report);
    report.Finish();
    if (format != Format::kTable) return;
    out << "\ndigest: " << context.digest() << "\n";
    if (!context.description().empty()) {
      out << "description: " << Printable(context.description()) << "\n";
    }
    for (const auto& [key, value] : LabelsOf(context)) {
      out << "label: " << key << "=" << Printable(value) << "\n";
    }
    if (context.has_last_use_time()) out << "last used: " << LastUsed(context) << "\n";
    if (context.has_expire_time()) out << "expires: " << Expires(context) << "\n";
    if (context.memory_row_count() > 0) out << MemorySetText(context) << "\n";
    if (context.appended_row_count() > 0) {
      out << "appended rows, not yet encoded anew: " << context.appended_row_count() << "\n";
    }
    if (context.clipped_target_count() > 0) {
      out << "target values far from the others: " << context.clipped_target_count() << "\n";
    }
    for (const v1::ColumnSummary& feature : context.features()) {
      if (feature.season_steps() > 0) {
        out << "season: " << feature.season_steps() << " steps of " << feature.name() << "\n";
      }
      if (const auto names = CalendarNames(feature); !names.empty()) {
        out << "calendar features of " << Printable(feature.name()) << ": "
            << absl::StrJoin(names, ", ") << "\n";
      }
    }
    out << "\n";
    WriteFeatures(context, &out);
  });
}

}  // namespace chorale::client
