#include "client/cli/context_id.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/names.h"
#include "base/normal_text.h"

namespace chorale::client {
namespace {

bool IsLetterOrDigit(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// FNV-1a, which is the same on every machine.
std::string Hash(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return absl::StrFormat("%08x", hash);
}

}  // namespace

std::string IdFromFile(const std::string& file) {
  if (file == "-") return "";
  const std::string stem = std::filesystem::path(file).stem().string();
  std::string id;
  bool whole = true;
  for (const char c : PlainLetters(stem)) {
    if (!absl::ascii_isascii(static_cast<unsigned char>(c))) {
      whole = false;
    } else if (IsLetterOrDigit(c) || c == '.' || c == '_' || c == '-') {
      id += absl::ascii_tolower(static_cast<unsigned char>(c));
    } else {
      id += '-';
    }
  }
  id.erase(id.begin(), std::find_if(id.begin(), id.end(), IsLetterOrDigit));
  if (whole && id.size() <= kMaxNameBytes) return id;
  const std::string hash = Hash(NormalText(stem));
  while (!id.empty() && !IsLetterOrDigit(id.back())) id.pop_back();
  if (id.empty()) id = "table";
  return absl::StrCat(id.substr(0, kMaxNameBytes - hash.size() - 1), "-", hash);
}

}  // namespace chorale::client
