// Text that is safe to show on a terminal.
#ifndef CHORALE_CLIENT_CLI_PRINTABLE_H_
#define CHORALE_CLIENT_CLI_PRINTABLE_H_

#include <ostream>
#include <streambuf>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale::client {

// Returns the text with escapes such as \x1b for everything that a terminal would interpret:
// control characters except line feed and tab, marks that change the direction of writing, and
// bytes that are not UTF-8. Texts of files and servers may contain any of these.
std::string Printable(absl::string_view text);

// Passes each line to another buffer, which it does not own, with the escapes of Printable.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf* out) : out_(out) {}
  ~PrintableBuffer() override { sync(); }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  static constexpr size_t kLongLine = 64 << 10;  // is passed in parts

  bool PassOn(size_t bytes);

  std::streambuf* const out_;
  std::string pending_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_PRINTABLE_H_
