// The SQL statement for a page of a list of contexts.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_LIST_SQL_H_
#define CHORALE_ENGINE_STORE_CONTEXT_LIST_SQL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/store/context_query.h"

namespace chorale {

// The last context of a page.
struct ListPosition {
  int64_t value = 0;  // of the field by which the list is ordered; 0 if that is the name
  std::string name;

  bool operator==(const ListPosition&) const = default;
};

struct ContextListSql {
  // A SELECT of the name, the value of ListPosition, and kSummaryColumns, which are NULL for a
  // context without a summary.
  std::string text;
  std::vector<std::variant<std::string, int64_t>> values;  // of its parameters
};

// Returns the statement for the first `count` contexts of a tenant that follow `after`.
ContextListSql MakeContextListSql(const std::string& tenant, const ContextQuery& query,
                                  const std::optional<ListPosition>& after, int64_t count);

// Returns a text that is equal for queries with the same contexts in the same order.
std::string IdentityOfList(const ContextQuery& query);

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_LIST_SQL_H_
