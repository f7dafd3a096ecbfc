// The functions of ContextTable for lists.
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "engine/store/context_list_sql.h"
#include "engine/store/context_table.h"

namespace chorale {

absl::StatusOr<ContextTable::Page> ContextTable::List(const std::string& tenant,
                                                      const ContextQuery& query,
                                                      const std::optional<ListPosition>& after,
                                                      PageLimits limits) {
  const ContextListSql sql = MakeContextListSql(tenant, query, after, limits.contexts + 1);
  SqliteStatement rows(*connection_, sql.text);
  for (const auto& value : sql.values) {
    std::visit([&rows](const auto& bound) { rows.Bind(bound); }, value);
  }
  SqliteStatement columns(*connection_,
                          absl::StrCat(kSelectContexts, "WHERE tenant = ? AND name = ?"));
  Page page;
  ListPosition last;
  int64_t bytes = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return page;
    if (static_cast<int64_t>(page.contexts.size()) == limits.contexts) break;
    const std::string name = rows.Text(0);
    StoredContext context;
    if (query.with_columns) {
      columns.Reset();
      columns.Bind(tenant);
      columns.Bind(name);
      ASSIGN_OR_RETURN(const bool found, columns.Step());
      if (!found) {
        return DamagedContext(connection_->path(), name, absl::DataLossError("has no dataset"));
      }
      context = CopyContext(columns);
    }
    context.record.tenant = tenant;
    context.record.name = name;
    context.summary = CopySummary(rows, 2);
    bytes += context.bytes();
    if (bytes > limits.bytes && !page.contexts.empty()) break;
    page.contexts.push_back(std::move(context));
    last = {rows.Integer(1), name};
  }
  page.next = std::move(last);
  return page;
}

absl::StatusOr<std::vector<ContextSummary>> ContextTable::ListNewest(int64_t count) {
  SqliteStatement query(*connection_,
                        "SELECT tenant, name, model, rows, memory_rows, memory_policy"
                        " FROM summaries ORDER BY created_ns DESC, tenant, name LIMIT ?");
  query.Bind(count);
  std::vector<ContextSummary> contexts;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return contexts;
    const MemorySet memory = {.rows = query.Integer(4),
                              .policy = static_cast<MemoryPolicy>(query.Integer(5))};
    contexts.push_back({query.Text(0),
                        query.Text(1),
                        query.Text(2),
                        {.rows = query.Integer(3), .memory = memory}});
  }
}

absl::StatusOr<std::vector<ContextKey>> ContextTable::ListExpired(absl::Time now, int64_t count) {
  SqliteStatement query(*connection_,
                        "SELECT tenant, name FROM summaries WHERE expires_ns <= ?"
                        " ORDER BY expires_ns LIMIT ?");
  query.Bind(absl::ToUnixNanos(now));
  query.Bind(count);
  std::vector<ContextKey> expired;
  while (true) {
    ASSIGN_OR_RETURN(bool row, query.Step());
    if (!row) return expired;
    expired.push_back({query.Text(0), query.Text(1)});
  }
}

}  // namespace chorale
