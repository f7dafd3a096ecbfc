// Which contexts a list contains, and in which order.
#ifndef CHORALE_ENGINE_STORE_CONTEXT_QUERY_H_
#define CHORALE_ENGINE_STORE_CONTEXT_QUERY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"

namespace chorale {

enum class ContextField {
  kName,
  kModel,
  kTarget,
  kDescription,
  kLabel,
  kRows,
  kFeatures,
  kDatasetBytes,
  kCreated,
  kUpdated,
  kLastUsed,  // as stored, see ContextStore::NoteUses
  kExpires,
};

// A condition that a context meets or not. Contexts without a label are unequal to every value of
// it. An unknown time of use is before all times, and the expiry of a context that does not expire
// is after all times.
struct ContextCondition {
  enum class Test {
    kEqual,
    kNotEqual,
    kLess,
    kLessOrEqual,
    kGreater,
    kGreaterOrEqual,
    kStartsWith,  // kName only
    kContains,    // kDescription only
    kExists,      // kLabel only; the value is ignored
  };
  ContextField field = ContextField::kName;
  std::string label = {};  // the key, if the field is kLabel: [a-z0-9_./-]+
  Test test = Test::kEqual;
  // A time for the times, a number for the counts and sizes, otherwise a text.
  std::variant<std::string, int64_t, absl::Time> value = {};
};

struct ContextQuery {
  std::vector<ContextCondition> conditions;  // the contexts of the list meet all of them
  // The name, a count, a size or a time. Contexts that are equal in it are in the order of names.
  ContextField order = ContextField::kName;
  bool descending = false;
  bool with_columns = true;  // otherwise ContextRecord::columns is empty
};

// The limits of a page of contexts. The page ends at the limit that is reached first, but contains
// at least one context.
struct PageLimits {
  int64_t contexts = 1000;  // 1 to 1000
  // The size of the records in the store. A record is never larger as a message.
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_STORE_CONTEXT_QUERY_H_
