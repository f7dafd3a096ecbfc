// Any text given as the file of tokens is either refused, with a reason that names the file, or
// gives a table that can be asked.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "server/security/token_file.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<chorale::TokenTable> table = chorale::TokenTable::Parse(text, "file");
  if (!table.ok()) {
    Check(absl::IsInvalidArgument(table.status()));
    Check(absl::StartsWith(table.status().message(), "file: "));
  } else {
    Check(table->Find(text) == nullptr);  // a table of its own hash cannot be made
  }
  return 0;
}
