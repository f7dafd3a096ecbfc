#include "server/codec/list_decoder.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/error_details.h"
#include "base/names.h"
#include "base/status_macros.h"

namespace chorale {
namespace {

using Test = ContextCondition::Test;

constexpr size_t kMaxFilterBytes = 4096;
constexpr size_t kMaxRestrictions = 16;

enum class ValueKind { kName, kModel, kText, kContainedText, kLabel, kNumber, kTime };

struct FieldInfo {
  absl::string_view name;
  ContextField field;
  ValueKind kind;
};

constexpr FieldInfo kFields[] = {
    {"name", ContextField::kName, ValueKind::kName},
    {"model", ContextField::kModel, ValueKind::kModel},
    {"target_column", ContextField::kTarget, ValueKind::kText},
    {"description", ContextField::kDescription, ValueKind::kContainedText},
    {"labels", ContextField::kLabel, ValueKind::kLabel},
    {"row_count", ContextField::kRows, ValueKind::kNumber},
    {"feature_count", ContextField::kFeatures, ValueKind::kNumber},
    {"dataset_bytes", ContextField::kDatasetBytes, ValueKind::kNumber},
    {"create_time", ContextField::kCreated, ValueKind::kTime},
    {"update_time", ContextField::kUpdated, ValueKind::kTime},
    {"last_use_time", ContextField::kLastUsed, ValueKind::kTime},
    {"expire_time", ContextField::kExpires, ValueKind::kTime},
};

const FieldInfo* FindField(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kFields), std::end(kFields),
                                         [&](const FieldInfo& f) { return f.name == name; });
  return found == std::end(kFields) ? nullptr : found;
}

// The longer operators precede their beginnings.
constexpr std::pair<absl::string_view, Test> kOperators[] = {
    {"!=", Test::kNotEqual}, {"<=", Test::kLessOrEqual}, {">=", Test::kGreaterOrEqual},
    {"=", Test::kEqual},     {"<", Test::kLess},         {">", Test::kGreater},
    {":", Test::kContains},
};

bool Applies(Test test, ValueKind kind) {
  const bool equality = test == Test::kEqual || test == Test::kNotEqual;
  switch (kind) {
    case ValueKind::kName:
    case ValueKind::kModel:
    case ValueKind::kText:
      return equality;
    case ValueKind::kContainedText:
      return test == Test::kContains;
    case ValueKind::kLabel:
      return equality || test == Test::kContains;
    case ValueKind::kNumber:
    case ValueKind::kTime:
      return test != Test::kContains;
  }
  return false;
}

// What a field requires as its value.
const char* ExpectedValue(ValueKind kind) {
  switch (kind) {
    case ValueKind::kName:
      return "\"contexts/{context_id}\", or for = also \"contexts/\", a prefix and *";
    case ValueKind::kModel:
      return "\"models/{model_id}\"";
    case ValueKind::kLabel:
      return "* after :";
    case ValueKind::kNumber:
      return "an integer";
    case ValueKind::kTime:
      return "a time such as \"2026-01-31T12:00:00Z\"";
    case ValueKind::kText:
    case ValueKind::kContainedText:
      break;
  }
  return "a string";
}

bool IsNameCharacter(char c) { return absl::ascii_islower(c) || c == '_'; }

bool IsKeyCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || absl::StrContains("_./-", c);
}

bool IsBareCharacter(char c) { return absl::ascii_isalnum(c) || absl::StrContains("_-./*:", c); }

bool SetName(absl::string_view name, ContextCondition* condition) {
  if (!absl::ConsumePrefix(&name, "contexts/")) return false;
  if (condition->test == Test::kEqual && absl::ConsumeSuffix(&name, "*")) {
    condition->test = Test::kStartsWith;
  }
  condition->value = std::string(name);
  return ValidateName("name", name).ok() || (condition->test == Test::kStartsWith && name.empty());
}

// Converts the value of a restriction, and sets the tests that depend on it. Returns false if the
// field does not have such values.
bool SetValue(ValueKind kind, std::string value, ContextCondition* condition) {
  switch (kind) {
    case ValueKind::kName:
      return SetName(value, condition);
    case ValueKind::kModel: {
      absl::string_view model = value;
      const bool valid = absl::ConsumePrefix(&model, "models/");
      condition->value = std::string(model);
      return valid;
    }
    case ValueKind::kLabel:
      if (condition->test == Test::kContains) {
        condition->test = Test::kExists;
        return value == "*";
      }
      condition->value = std::move(value);
      return true;
    case ValueKind::kNumber: {
      int64_t number = 0;
      const bool valid = absl::SimpleAtoi(value, &number);
      condition->value = number;
      return valid;
    }
    case ValueKind::kTime: {
      absl::Time time;
      const bool valid = absl::ParseTime(absl::RFC3339_full, value, &time, nullptr);
      condition->value = time;
      return valid && time != absl::InfiniteFuture() && time != absl::InfinitePast();
    }
    case ValueKind::kText:
    case ValueKind::kContainedText:
      break;
  }
  condition->value = std::move(value);
  return true;
}

// A filter and the position up to which it has been read.
class FilterReader {
 public:
  explicit FilterReader(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<ContextCondition>> Read() {
    std::vector<ContextCondition> conditions;
    SkipSpaces();
    while (position_ < text_.size()) {
      if (conditions.size() == kMaxRestrictions) {
        return LimitExceeded("filter", absl::StrCat("has more than ", kMaxRestrictions,
                                                    " restrictions, which is the limit"));
      }
      ASSIGN_OR_RETURN(ContextCondition condition, ReadRestriction());
      conditions.push_back(std::move(condition));
      SkipSpaces();
      if (position_ == text_.size()) break;
      const size_t joint = position_;
      if (TakeWhile(absl::ascii_isalpha) != "AND") return ErrorAt(joint, "expected AND");
      SkipSpaces();
      if (position_ == text_.size()) return ErrorAt(position_, "expected a restriction after AND");
    }
    return conditions;
  }

 private:
  static absl::Status ErrorAt(size_t position, absl::string_view what) {
    return InvalidField("filter", absl::StrCat("at byte ", position, ": ", what));
  }

  void SkipSpaces() { TakeWhile(absl::ascii_isspace); }

  template <typename Predicate>
  absl::string_view TakeWhile(Predicate matches) {
    const size_t begin = position_;
    while (position_ < text_.size() && matches(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  bool Take(absl::string_view expected) {
    const bool taken = absl::StartsWith(text_.substr(position_), expected);
    if (taken) position_ += expected.size();
    return taken;
  }

  absl::StatusOr<ContextCondition> ReadRestriction() {
    const size_t begin = position_;
    const FieldInfo* const field = FindField(TakeWhile(IsNameCharacter));
    if (field == nullptr) {
      return ErrorAt(begin, "expected a field, such as create_time or labels.KEY");
    }
    ContextCondition condition;
    condition.field = field->field;
    if (field->kind == ValueKind::kLabel) {
      if (Take(".")) condition.label = std::string(TakeWhile(IsKeyCharacter));
      if (condition.label.empty()) return ErrorAt(position_, "expected the key of a label");
    }
    SkipSpaces();
    const size_t operator_position = position_;
    const auto* const found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                           [this](const auto& o) { return Take(o.first); });
    if (found == std::end(kOperators)) {
      return ErrorAt(operator_position, "expected one of = != < <= > >= :");
    }
    condition.test = found->second;
    if (!Applies(condition.test, field->kind)) {
      return ErrorAt(operator_position,
                     absl::StrCat(found->first, " does not apply to ", field->name));
    }
    SkipSpaces();
    const size_t value_position = position_;
    ASSIGN_OR_RETURN(std::string value, ReadValue());
    if (!SetValue(field->kind, std::move(value), &condition)) {
      return ErrorAt(value_position,
                     absl::StrCat(field->name, " requires ", ExpectedValue(field->kind)));
    }
    return condition;
  }

  absl::StatusOr<std::string> ReadValue() {
    const size_t begin = position_;
    if (!Take("\"")) {
      const absl::string_view bare = TakeWhile(IsBareCharacter);
      if (bare.empty()) return ErrorAt(begin, "expected a value");
      return std::string(bare);
    }
    std::string value;
    while (position_ < text_.size()) {
      char c = text_[position_++];
      if (c == '"') return value;
      if (c == '\\') {
        if (position_ == text_.size()) break;
        c = text_[position_++];
        if (c != '"' && c != '\\') {
          return ErrorAt(position_ - 2, "a backslash must precede a quote or a backslash");
        }
      }
      value.push_back(c);
    }
    return ErrorAt(begin, "the quote is not closed");
  }

  const absl::string_view text_;
  size_t position_ = 0;
};

absl::Status DecodeOrder(absl::string_view text, ContextQuery* query) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return absl::OkStatus();
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  const FieldInfo* const field = FindField(words.front());
  const bool sorts =
      field != nullptr && (field->kind == ValueKind::kName || field->kind == ValueKind::kNumber ||
                           field->kind == ValueKind::kTime);
  query->descending = words.size() == 2 && words.back() == "desc";
  if (!sorts || (words.size() > 1 && !query->descending)) {
    return InvalidField("order_by",
                        "must be one of name, row_count, feature_count, dataset_bytes, "
                        "create_time, update_time, last_use_time and expire_time, optionally "
                        "followed by \" desc\"");
  }
  query->order = field->field;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ContextQuery> DecodeContextQuery(const v1::ListContextsRequest& message) {
  if (message.filter().size() > kMaxFilterBytes) {
    return LimitExceeded("filter", absl::StrCat("has ", message.filter().size(),
                                                " bytes; the limit is ", kMaxFilterBytes));
  }
  ContextQuery query;
  ASSIGN_OR_RETURN(query.conditions, FilterReader(message.filter()).Read());
  RETURN_IF_ERROR(DecodeOrder(message.order_by(), &query));
  switch (message.view()) {
    case v1::CONTEXT_VIEW_UNSPECIFIED:
    case v1::CONTEXT_VIEW_BASIC:
      query.with_columns = false;
      return query;
    case v1::CONTEXT_VIEW_FULL:
      query.with_columns = true;
      return query;
    default:
      return InvalidField("view", absl::StrCat("has the unknown value ", message.view()));
  }
}

}  // namespace chorale
