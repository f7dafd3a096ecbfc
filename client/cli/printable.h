// Text that is safe to show on a terminal.
#ifndef CHORALE_CLIENT_CLI_PRINTABLE_H_
#define CHORALE_CLIENT_CLI_PRINTABLE_H_

#include <ostream>
#include <streambuf>
#include <string>

#include "absl/strings/string_view.h"

namespace chorale::client {

// The text with what a terminal would obey written out: control characters but for line feed and
// tab, marks that turn the direction of writing, and bytes that are no UTF-8, as \x1b. A file or a
// server may hold any of these.
std::string Printable(absl::string_view text);

// Passes on to another buffer what is printable of each line. Does not own it.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf* out) : out_(out) {}
  ~PrintableBuffer() override { sync(); }

 protected:
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  static constexpr size_t kLongLine = 64 << 10;  // is passed on in parts

  bool PassOn(size_t bytes);

  std::streambuf* const out_;
  std::string pending_;
};

}  // namespace chorale::client

#endif  // CHORALE_CLIENT_CLI_PRINTABLE_H_
