#include "engine/store/context_list_sql.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/store/summary_table.h"

namespace chorale {
namespace {

using Test = ContextCondition::Test;

const char* ColumnOf(ContextField field) {
  switch (field) {
    case ContextField::kName:
      return "contexts.name";
    case ContextField::kModel:
      return "summaries.model";
    case ContextField::kTarget:
      return "summaries.target";
    case ContextField::kDescription:
      return "summaries.description";
    case ContextField::kLabel:
      return "json_extract(summaries.labels, ?)";
    case ContextField::kRows:
      return "summaries.rows";
    case ContextField::kFeatures:
      return "summaries.features";
    case ContextField::kDatasetBytes:
      return "summaries.bytes";
    case ContextField::kCreated:
      return "summaries.created_ns";
    case ContextField::kUpdated:
      return "summaries.updated_ns";
    case ContextField::kLastUsed:
      return "summaries.last_used_ns";
    case ContextField::kExpires:
      return "summaries.expires_ns";
  }
  return "NULL";
}

// The part of a condition after the column.
const char* TestOf(Test test) {
  switch (test) {
    case Test::kEqual:
      return " = ?";
    case Test::kNotEqual:
      return " IS NOT ?";  // also true for NULL
    case Test::kLess:
      return " < ?";
    case Test::kLessOrEqual:
      return " <= ?";
    case Test::kGreater:
      return " > ?";
    case Test::kGreaterOrEqual:
      return " >= ?";
    case Test::kStartsWith:
    case Test::kContains:
      break;
    case Test::kExists:
      return " IS NOT NULL";
  }
  return "";
}

void AddValue(const ContextCondition& condition, ContextListSql* sql) {
  if (const auto* text = std::get_if<std::string>(&condition.value)) {
    sql->values.emplace_back(*text);
  } else if (const auto* number = std::get_if<int64_t>(&condition.value)) {
    sql->values.emplace_back(*number);
  } else {
    sql->values.emplace_back(StoredTime(std::get<absl::Time>(condition.value)));
  }
}

void AddCondition(const ContextCondition& condition, ContextListSql* sql) {
  const char* const column = ColumnOf(condition.field);
  if (condition.test == Test::kStartsWith) {
    // The index finds a range. All characters of names precede '~'.
    absl::StrAppend(&sql->text, " AND ", column, " >= ? AND ", column, " < ?");
    const auto& prefix = std::get<std::string>(condition.value);
    sql->values.emplace_back(prefix);
    sql->values.emplace_back(absl::StrCat(prefix, "~"));
    return;
  }
  if (condition.test == Test::kContains) {
    absl::StrAppend(&sql->text, " AND instr(", column, ", ?) > 0");
    AddValue(condition, sql);
    return;
  }
  absl::StrAppend(&sql->text, " AND ", column, TestOf(condition.test));
  if (condition.field == ContextField::kLabel) {
    sql->values.emplace_back(absl::StrCat("$.\"", condition.label, "\""));
  }
  if (condition.test != Test::kExists) AddValue(condition, sql);
}

}  // namespace

ContextListSql MakeContextListSql(const std::string& tenant, const ContextQuery& query,
                                  const std::optional<ListPosition>& after, int64_t count) {
  const bool by_name = query.order == ContextField::kName;
  const char* const key = ColumnOf(query.order);
  const char* const comparison = query.descending ? " < ?" : " > ?";
  const char* const direction = query.descending ? " DESC" : "";

  ContextListSql sql;
  sql.text = absl::StrCat("SELECT contexts.name, ", by_name ? "0" : key, ", ", kSummaryColumns,
                          " FROM contexts LEFT JOIN summaries"
                          " ON summaries.tenant = contexts.tenant"
                          " AND summaries.name = contexts.name WHERE contexts.tenant = ?");
  sql.values.emplace_back(tenant);
  for (const ContextCondition& condition : query.conditions) AddCondition(condition, &sql);
  if (after.has_value() && by_name) {
    absl::StrAppend(&sql.text, " AND ", key, comparison);
    sql.values.emplace_back(after->name);
  } else if (after.has_value()) {
    absl::StrAppend(&sql.text, " AND (", key, comparison, " OR (", key,
                    " = ? AND contexts.name > ?))");
    sql.values.emplace_back(after->value);
    sql.values.emplace_back(after->value);
    sql.values.emplace_back(after->name);
  }
  // With the limit, SQLite sorts by keeping the first rows, so its memory is bounded.
  absl::StrAppend(&sql.text, " ORDER BY ", key, direction, by_name ? "" : ", contexts.name",
                  " LIMIT ?");
  sql.values.emplace_back(count);
  return sql;
}

std::string IdentityOfList(const ContextQuery& query) {
  const ContextListSql sql = MakeContextListSql("", query, std::nullopt, 0);
  std::string identity = sql.text;
  for (const auto& value : sql.values) {
    const auto* text = std::get_if<std::string>(&value);
    const std::string written = text != nullptr ? *text : absl::StrCat(std::get<int64_t>(value));
    absl::StrAppend(&identity, " ", written.size(), ":", written);
  }
  return identity;
}

}  // namespace chorale
