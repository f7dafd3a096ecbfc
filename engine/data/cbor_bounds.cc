#include "engine/data/cbor_bounds.h"

#include <vector>

namespace chorale {
namespace {

// RFC 8949, section 3.1.
enum MajorType : uint8_t { kUnsigned = 0, kBytes = 2, kText = 3, kArray = 4, kMap = 5 };

struct Head {
  uint8_t major = 0;
  uint64_t argument = 0;
};

// Removes the head of an item from the front of `bytes`. Returns false if the head is truncated or
// of indefinite length.
bool TakeHead(absl::string_view& bytes, Head& head) {
  if (bytes.empty()) return false;
  const uint8_t first = static_cast<uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  head.major = first >> 5;
  const uint8_t info = first & 0x1F;
  if (info < 24) {
    head.argument = info;
    return true;
  }
  if (info > 27) return false;
  const size_t width = size_t{1} << (info - 24);
  if (bytes.size() < width) return false;
  head.argument = 0;
  for (size_t i = 0; i < width; ++i) {
    head.argument = head.argument << 8 | static_cast<uint8_t>(bytes[i]);
  }
  bytes.remove_prefix(width);
  return true;
}

}  // namespace

bool WithinCborBounds(absl::string_view bytes, int64_t max_depth, int64_t max_items) {
  std::vector<uint64_t> remaining = {1};  // remaining items of each open container
  int64_t items = 0;
  while (true) {
    while (!remaining.empty() && remaining.back() == 0) remaining.pop_back();
    if (remaining.empty()) return bytes.empty();
    --remaining.back();

    Head head;
    if (++items > max_items || !TakeHead(bytes, head)) return false;
    switch (head.major) {
      case kUnsigned:
        break;
      case kBytes:
      case kText:
        if (head.argument > bytes.size()) return false;
        bytes.remove_prefix(head.argument);
        break;
      case kArray:
      case kMap:
        // Every item takes at least one byte, so a larger count is invalid. The check also keeps
        // the doubling for keys and values from overflowing.
        if (head.argument > bytes.size()) return false;
        if (static_cast<int64_t>(remaining.size()) > max_depth) return false;
        remaining.push_back(head.major == kMap ? 2 * head.argument : head.argument);
        break;
      default:
        return false;
    }
  }
}

}  // namespace chorale
