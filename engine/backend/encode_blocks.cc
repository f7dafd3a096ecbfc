#include "engine/backend/encode_blocks.h"

#include <algorithm>

#include "base/require.h"

namespace chorale {

std::vector<RowRange> EncodeBlocks(int64_t rows, absl::Span<const int64_t> append_starts,
                                   int64_t prefix_rows) {
  std::vector<RowRange> blocks;
  int64_t first = 0;
  const auto add = [&](int64_t end) {
    Require(end > first, "append_starts are ascending, positive and less than the number of rows");
    if (first >= prefix_rows) blocks.push_back({.first = first, .rows = end - first});
    first = end;
  };
  for (const int64_t start : append_starts) add(start);
  add(rows);
  Require(!blocks.empty() && blocks.front().first == prefix_rows,
          "the number of rows of the prefix is one of append_starts");
  return blocks;
}

bool CanBePrefix(const ContextShape& prefix, const ContextShape& context,
                 absl::Span<const int64_t> append_starts) {
  return prefix.memory == context.memory && prefix.reduced() == context.reduced() &&
         std::find(append_starts.begin(), append_starts.end(), prefix.rows) != append_starts.end();
}

}  // namespace chorale
