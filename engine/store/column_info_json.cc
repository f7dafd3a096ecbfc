#include "engine/store/column_info_json.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/data/column_meaning.h"

namespace chorale {
namespace {

using Json = nlohmann::json;

constexpr char kNumeric[] = "numeric";
constexpr char kCategorical[] = "categorical";
constexpr char kClippedTargets[] = "far_targets";
constexpr char kSeasonTransform[] = "season_transform";
constexpr char kSeasonSteps[] = "season_steps";
constexpr char kMeaning[] = "meaning";
constexpr char kCalendar[] = "calendar";

// Reads a non-negative integer member of an object.
bool TakeCount(const Json& object, const char* key, int64_t& out) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return false;
  out = found->get<int64_t>();
  return out >= 0;
}

// Reads the members that records of earlier versions lack.
bool TakeNotes(const Json& object, ColumnInfo& column) {
  if (object.contains("outside_bulk") && !TakeCount(object, "outside_bulk", column.outside_bulk)) {
    return false;
  }
  if (const auto left_out = object.find("left_out"); left_out != object.end()) {
    if (!left_out->is_boolean()) return false;
    column.left_out = left_out->get<bool>();
  }
  if (const auto meaning = object.find(kMeaning); meaning != object.end()) {
    if (!meaning->is_string() || column.type != ColumnType::kNumeric ||
        !MeaningFromName(meaning->get_ref<const std::string&>(), &column.meaning)) {
      return false;
    }
  }
  if (const auto calendar = object.find(kCalendar); calendar != object.end()) {
    if (!calendar->is_array()) return false;
    for (const Json& name : *calendar) {
      if (!name.is_string()) return false;
      const auto feature = CalendarFeatureFromName(name.get_ref<const std::string&>());
      if (!feature.has_value()) return false;
      column.calendar.push_back(*feature);
    }
  }
  const auto season = object.find(kSeasonSteps);
  if (season == object.end()) return true;
  if (!season->is_number()) return false;
  column.season_steps = season->get<double>();
  return column.season_steps > 0;
}

bool TakeColumn(const Json& object, ColumnInfo& column) {
  if (!object.is_object()) return false;
  const auto name = object.find("name");
  const auto type = object.find("type");
  if (name == object.end() || !name->is_string() || type == object.end()) return false;
  column.name = name->get<std::string>();
  if (*type != kNumeric && *type != kCategorical) return false;
  column.type = *type == kNumeric ? ColumnType::kNumeric : ColumnType::kCategorical;
  return TakeCount(object, "categories", column.categories) &&
         TakeCount(object, "missing", column.missing) && TakeNotes(object, column);
}

}  // namespace

absl::StatusOr<std::string> ColumnsToJson(const ContextRecord& record) {
  try {
    Json array = Json::array();
    for (const ColumnInfo& column : record.columns) {
      array.push_back({{"name", column.name},
                       {"type", column.type == ColumnType::kNumeric ? kNumeric : kCategorical},
                       {"categories", column.categories},
                       {"missing", column.missing},
                       {"outside_bulk", column.outside_bulk},
                       {"left_out", column.left_out}});
      if (column.season_steps > 0) array.back()[kSeasonSteps] = column.season_steps;
      if (column.meaning != Meaning::kNumber) array.back()[kMeaning] = MeaningName(column.meaning);
      for (const CalendarFeature feature : column.calendar) {
        array.back()[kCalendar].push_back(std::string(NameOf(feature)));
      }
    }
    if (!array.empty() && record.clipped_targets > 0)
      array[0][kClippedTargets] = record.clipped_targets;
    if (!array.empty() && !record.season_transform.empty()) {
      array[0][kSeasonTransform] = record.season_transform;
    }
    return array.dump();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("columns cannot be stored: ", e.what()));
  }
}

absl::Status ColumnsFromJson(absl::string_view json, ContextRecord* record) {
  try {
    const Json array = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
    if (!array.is_array()) return absl::DataLossError("the list of columns is damaged");
    std::vector<ColumnInfo> columns(array.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      if (!TakeColumn(array[i], columns[i])) {
        return absl::DataLossError(absl::StrCat("column ", i, " in the list is damaged"));
      }
    }
    const bool has_clipped_targets = !columns.empty() && array[0].contains(kClippedTargets);
    if (has_clipped_targets && !TakeCount(array[0], kClippedTargets, record->clipped_targets)) {
      return absl::DataLossError("the number of clipped targets is damaged");
    }
    if (!columns.empty() && array[0].contains(kSeasonTransform)) {
      if (!array[0][kSeasonTransform].is_string()) {
        return absl::DataLossError("the season's version is damaged");
      }
      record->season_transform = array[0][kSeasonTransform].get<std::string>();
    }
    record->columns = std::move(columns);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return absl::DataLossError(absl::StrCat("the list of columns is damaged: ", e.what()));
  }
}

}  // namespace chorale
