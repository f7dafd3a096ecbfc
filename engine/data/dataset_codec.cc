#include "engine/data/dataset_codec.h"

#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/data/category_dictionary.h"
#include "engine/data/cbor_bounds.h"
#include "engine/data/column_meaning.h"
#include "engine/data/column_validation.h"

namespace chorale {
namespace {

// Keys are sorted because nlohmann::json keeps objects in a std::map.
using Json = nlohmann::json;
using Binary = Json::binary_t;

static_assert(std::endian::native == std::endian::little,
              "packed arrays are little-endian and are copied as they lie in memory");

constexpr char kFormat[] = "chorale dataset";
constexpr uint64_t kVersion = 1;
constexpr char kSeasons[] = "seasons";
constexpr char kNotSought[] = "not sought";
constexpr char kMeaning[] = "meaning";
constexpr char kAppendStarts[] = "append_starts";
constexpr char kMemoryPolicy[] = "memory_policy";
constexpr char kMemoryRows[] = "memory_rows";
// Nesting: the document, its columns, a column.
constexpr int64_t kMaxDepth = 3;

template <typename T>
Json Pack(absl::Span<const T> values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Json::binary(std::move(bytes));
}

// Makes the bits of equal numbers equal: a single NaN, and no negative zero.
Json PackNumbers(absl::Span<const double> numbers) {
  std::vector<double> canonical(numbers.begin(), numbers.end());
  for (double& number : canonical) {
    if (std::isnan(number)) number = std::bit_cast<double>(uint64_t{0x7FF8000000000000});
    if (number == 0) number = 0;
  }
  return Pack(absl::MakeConstSpan(canonical));
}

Json EncodeColumn(const Column& column) {
  Json json = {{"name", column.name}};
  if (column.type == ColumnType::kNumeric) {
    json["numbers"] = PackNumbers(column.numbers);
    if (column.meaning != Meaning::kNumber) json[kMeaning] = MeaningName(column.meaning);
    return json;
  }
  const CategoryDictionary dictionary = CanonicalDictionary(column);
  std::vector<int32_t> codes(column.codes.size());
  for (size_t row = 0; row < codes.size(); ++row) {
    const int32_t code = column.codes[row];
    codes[row] = code == kMissingCode ? kMissingCode : dictionary.renumber[code];
  }
  std::vector<uint32_t> lengths;
  std::vector<uint8_t> text;
  for (const std::string& category : dictionary.categories) {
    lengths.push_back(static_cast<uint32_t>(category.size()));
    text.insert(text.end(), category.begin(), category.end());
  }
  json["category_lengths"] = Pack(absl::MakeConstSpan(lengths));
  json["category_text"] = Json::binary(std::move(text));
  json["codes"] = Pack(absl::MakeConstSpan(codes));
  return json;
}

// --- Decoding: returns false for bytes that EncodeDataset does not write ---------------------

const Binary* FindBinary(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_binary() ? &found->get_binary() : nullptr;
}

bool TakeString(const Json& object, const char* key, std::string& out) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return false;
  out = found->get_ref<const std::string&>();
  return true;
}

template <typename T>
bool Unpack(const Binary* bytes, std::vector<T>& out) {
  if (bytes == nullptr || bytes->size() % sizeof(T) != 0) return false;
  out.resize(bytes->size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes->data(), bytes->size());
  return true;
}

bool DecodeCategories(const Json& json, std::vector<std::string>& categories) {
  std::vector<uint32_t> lengths;
  const Binary* text = FindBinary(json, "category_text");
  if (text == nullptr || !Unpack(FindBinary(json, "category_lengths"), lengths)) return false;
  // The encoder writes no empty category. Rejecting them here bounds the number of objects by the
  // number of bytes.
  size_t used = 0;
  for (const uint32_t length : lengths) {
    if (length == 0 || length > text->size() - used) return false;
    categories.emplace_back(reinterpret_cast<const char*>(text->data()) + used, length);
    used += length;
  }
  return used == text->size();
}

bool DecodeColumn(const Json& json, Column& column) {
  if (!json.is_object() || !TakeString(json, "name", column.name)) return false;
  if (json.contains("numbers")) {
    column.type = ColumnType::kNumeric;
    std::string meaning;
    if (json.contains(kMeaning) &&
        !(TakeString(json, kMeaning, meaning) && MeaningFromName(meaning, &column.meaning))) {
      return false;
    }
    return Unpack(FindBinary(json, "numbers"), column.numbers);
  }
  column.type = ColumnType::kCategorical;
  return DecodeCategories(json, column.categories) &&
         Unpack(FindBinary(json, "codes"), column.codes);
}

bool DecodeMemory(const Json& json, MemorySet& memory) {
  const auto rows = json.find(kMemoryRows);
  if (rows == json.end()) return true;  // a policy alone is not canonical
  std::string policy;
  if (!rows->is_number_unsigned() ||
      rows->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return false;
  }
  memory.rows = rows->get<int64_t>();
  return TakeString(json, kMemoryPolicy, policy) && MemoryPolicyFromName(policy, &memory.policy);
}

bool DecodeAppends(const Json& json, std::vector<int64_t>& starts) {
  const auto found = json.find(kAppendStarts);
  if (found == json.end()) return true;
  if (!found->is_array()) return false;
  for (const Json& start : *found) {
    if (!start.is_number_unsigned() ||
        start.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return false;
    }
    starts.push_back(start.get<int64_t>());
  }
  return true;
}

bool DecodeDocument(const Json& json, Dataset& dataset) {
  if (!json.is_object()) return false;
  const auto columns = json.find("columns");
  if (columns == json.end() || !columns->is_array()) return false;
  dataset.features.columns.resize(columns->size());
  for (size_t i = 0; i < columns->size(); ++i) {
    if (!DecodeColumn((*columns)[i], dataset.features.columns[i])) return false;
  }
  if (const auto seasons = json.find(kSeasons); seasons != json.end()) {
    if (*seasons != kNotSought) return false;
    dataset.seasons = Seasons::kNotSought;
  }
  if (!DecodeMemory(json, dataset.memory)) return false;
  if (!DecodeAppends(json, dataset.append_starts)) return false;
  return TakeString(json, "target", dataset.target) && Unpack(FindBinary(json, "y"), dataset.y);
}

absl::Status CheckFormat(const Json& json) {
  std::string format;
  if (!json.is_object() || !TakeString(json, "format", format) || format != kFormat) {
    return absl::DataLossError("these bytes are not an encoded dataset");
  }
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_unsigned() ||
      version->get<uint64_t>() != kVersion) {
    return absl::DataLossError(
        absl::StrCat("the dataset is in another format than version ", kVersion));
  }
  return absl::OkStatus();
}

absl::StatusOr<Dataset> DecodeBounded(absl::string_view bytes) {
  const Json json = Json::from_cbor(bytes.begin(), bytes.end(), /*strict=*/true,
                                    /*allow_exceptions=*/false);
  RETURN_IF_ERROR(CheckFormat(json));
  Dataset dataset;
  if (!DecodeDocument(json, dataset)) return absl::DataLossError("the dataset is malformed");
  if (absl::Status s = ValidateDataset(dataset, NoLimits()); !s.ok()) {
    return absl::DataLossError(absl::StrCat("the dataset is invalid: ", s.message()));
  }
  // Detects every other deviation: duplicate or unknown keys, numbers in a longer encoding,
  // unsorted dictionaries.
  if (EncodeDataset(dataset) != bytes) {
    return absl::DataLossError("the dataset is not in canonical form");
  }
  return dataset;
}

}  // namespace

std::string EncodeDataset(const Dataset& dataset) {
  Json columns = Json::array();
  for (const Column& column : dataset.features.columns) columns.push_back(EncodeColumn(column));
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"columns", std::move(columns)},
               {"target", dataset.target},
               {"y", PackNumbers(dataset.y)}};
  for (const int64_t start : dataset.append_starts) {
    json[kAppendStarts].push_back(static_cast<uint64_t>(start));
  }
  if (dataset.memory.rows > 0) {
    json[kMemoryPolicy] = MemoryPolicyName(dataset.memory.policy);
    json[kMemoryRows] = static_cast<uint64_t>(dataset.memory.rows);
  }
  if (dataset.seasons == Seasons::kNotSought) json[kSeasons] = kNotSought;
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

absl::StatusOr<Dataset> DecodeDataset(absl::string_view bytes) {
  // Except for the starts of appends, a numeric column of one row has the most items per byte: 5 in
  // 26 bytes, or 7 in 42.
  const int64_t max_items = 16 + kMostAppends + static_cast<int64_t>(bytes.size() / 4);
  if (!WithinCborBounds(bytes, kMaxDepth, max_items)) {
    return absl::DataLossError("these bytes are not an encoded dataset, or are damaged");
  }
  // from_cbor is called without exceptions, but allocation can throw.
  try {
    return DecodeBounded(bytes);
  } catch (const std::exception& e) {
    return absl::DataLossError(absl::StrCat("the dataset cannot be decoded: ", e.what()));
  }
}

std::string ContentDigest(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  // Cannot fail with a built-in hash. Abort rather than return a wrong digest.
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1) {
    std::abort();
  }
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), length));
}

uint64_t ContentKey(absl::string_view bytes) {
  uint64_t key = 0;
  Require(absl::SimpleHexAtoi(ContentDigest(bytes).substr(0, 16), &key), "a digest is hex");
  return key;
}

uint64_t ContentSeed(absl::string_view purpose, absl::string_view digest) {
  return ContentKey(absl::StrCat("chorale ", purpose, "\n", digest, "\n"));
}

}  // namespace chorale
