#include "client/cli/functional_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace chorale::client {
namespace {

struct FunctionalName {
  const char* text;
  v1::Functional::Type type;
};

constexpr std::array<FunctionalName, 14> kNames = {{
    {"sum", v1::Functional::TYPE_SUM},
    {"mean", v1::Functional::TYPE_MEAN},
    {"max", v1::Functional::TYPE_MAX},
    {"min", v1::Functional::TYPE_MIN},
    {"any", v1::Functional::TYPE_ANY},
    {"all", v1::Functional::TYPE_ALL},
    {"count", v1::Functional::TYPE_COUNT},
    {"excess", v1::Functional::TYPE_EXCESS},
    {"improvement", v1::Functional::TYPE_IMPROVEMENT},
    {"longest_run", v1::Functional::TYPE_LONGEST_RUN},
    {"argmax", v1::Functional::TYPE_ARGMAX},
    {"argmin", v1::Functional::TYPE_ARGMIN},
    {"rank", v1::Functional::TYPE_RANK},
    {"sum_beyond", v1::Functional::TYPE_SUM_BEYOND},
}};

// Used by one thread.
class FunctionalParser {
 public:
  FunctionalParser(const std::string& spec, int64_t row_count)
      : spec_(spec), row_count_(row_count) {}

  absl::StatusOr<v1::Functional> Parse() {
    const std::vector<absl::string_view> parts = absl::StrSplit(spec_, ':');
    const auto* const name =
        std::find_if(kNames.begin(), kNames.end(),
                     [&](const FunctionalName& known) { return parts.front() == known.text; });
    if (name == kNames.end()) {
      return Invalid(absl::StrCat(
          "'", parts.front(), "' is not a functional; the functionals are: ",
          absl::StrJoin(kNames, ", ", [](std::string* out, const FunctionalName& known) {
            out->append(known.text);
          })));
    }
    functional_.set_type(name->type);
    for (size_t i = 1; i < parts.size(); ++i) RETURN_IF_ERROR(ParseOption(parts[i]));
    const bool needs_threshold = (name->type >= v1::Functional::TYPE_ANY &&
                                  name->type <= v1::Functional::TYPE_LONGEST_RUN) ||
                                 name->type == v1::Functional::TYPE_SUM_BEYOND;
    if (needs_threshold && !has_threshold_) return Invalid("requires above=T or below=T");
    if (!needs_threshold && has_threshold_) return Invalid("does not have a threshold");
    return functional_;
  }

 private:
  absl::Status Invalid(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("--functional: '", spec_, "': ", what));
  }

  absl::StatusOr<double> ParseNumber(absl::string_view text) const {
    double number = 0.0;
    if (absl::SimpleAtod(text, &number) && std::isfinite(number)) return number;
    return Invalid(absl::StrCat("'", text, "' is not a finite number"));
  }

  absl::StatusOr<double> ParseTargetError(absl::string_view text) const {
    ASSIGN_OR_RETURN(const double error, ParseNumber(text));
    if (error > 0) return error;
    return Invalid(absl::StrCat("the target error ", text, " must be more than 0"));
  }

  absl::StatusOr<int32_t> ParseRow(absl::string_view text) const {
    int32_t row = 0;
    if (absl::SimpleAtoi(text, &row) && row >= 0 && row < row_count_) return row;
    return Invalid(
        absl::StrCat("'", text, "' is not the number of a row, from 0 to ", row_count_ - 1));
  }

  absl::Status ParseOption(absl::string_view option) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    const auto& [name, value] = parts;
    if ((name == "above" || name == "below") && !has_threshold_) {
      ASSIGN_OR_RETURN(const double threshold, ParseNumber(value));
      functional_.set_threshold(threshold);
      functional_.set_below(name == "below");
      has_threshold_ = true;
      return absl::OkStatus();
    }
    if (name == "rows" && functional_.rows().empty()) return ParseRows(value);
    if (name == "weights" && functional_.weights().empty()) {
      if (functional_.type() != v1::Functional::TYPE_SUM &&
          functional_.type() != v1::Functional::TYPE_SUM_BEYOND) {
        return Invalid("does not have weights");
      }
      for (const absl::string_view weight : absl::StrSplit(value, ',')) {
        ASSIGN_OR_RETURN(const double number, ParseNumber(weight));
        functional_.add_weights(number);
      }
      return absl::OkStatus();
    }
    if (name == "mean_error" && functional_.target_mean_error() == 0) {
      ASSIGN_OR_RETURN(const double error, ParseTargetError(value));
      functional_.set_target_mean_error(error);
      return absl::OkStatus();
    }
    if (name == "quantile_error" && functional_.target_quantile_error() == 0) {
      if (HasNumberOfEachRow(functional_.type())) return Invalid("does not have quantiles");
      ASSIGN_OR_RETURN(const double error, ParseTargetError(value));
      functional_.set_target_quantile_error(error);
      return absl::OkStatus();
    }
    return Invalid(absl::StrCat("'", option,
                                "' is repeated or not an option; the options are: above=T, "
                                "below=T, rows=LIST, weights=W,..., mean_error=E, "
                                "quantile_error=E"));
  }

  absl::Status ParseRows(absl::string_view list) {
    std::vector<bool> selected(row_count_);
    for (const absl::string_view item : absl::StrSplit(list, ',')) {
      const std::vector<absl::string_view> ends = absl::StrSplit(item, absl::MaxSplits('-', 1));
      ASSIGN_OR_RETURN(const int32_t first, ParseRow(ends.front()));
      ASSIGN_OR_RETURN(const int32_t last, ParseRow(ends.back()));
      for (int32_t row = first; row <= last; ++row) {
        if (selected[row]) return Invalid(absl::StrCat("row ", row, " is repeated"));
        selected[row] = true;
        functional_.add_rows(row);
      }
      if (last < first) return Invalid(absl::StrCat("the range '", item, "' is empty"));
    }
    return absl::OkStatus();
  }

  const std::string& spec_;
  const int64_t row_count_;
  v1::Functional functional_;
  bool has_threshold_ = false;
};

}  // namespace

absl::StatusOr<v1::Functional> ParseFunctional(const std::string& spec, int64_t row_count) {
  return FunctionalParser(spec, row_count).Parse();
}

bool HasNumberOfEachRow(v1::Functional::Type type) {
  return type == v1::Functional::TYPE_ARGMAX || type == v1::Functional::TYPE_ARGMIN ||
         type == v1::Functional::TYPE_RANK;
}

}  // namespace chorale::client
