#include "engine/model/tensor_header.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace chorale {
namespace {

constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxNameBytes = 512;  // keeps error messages short, too

// Checks the parser's events against the grammar in ParseTensorHeader's comment. Builds no document
// tree: a tree would drop duplicate keys silently, and a hostile file could make it deep.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  TensorHeader Take() { return std::move(header_); }
  const std::string& error() const { return error_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not an integer");
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    if (numbers_->size() == kMaxDimensions) return Fail("more than 8 numbers in one list");
    numbers_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      return header_.metadata.emplace(key_, value).second ||
             Fail(absl::StrCat("duplicate metadata key '", key_, "'"));
    }
    if (place_ != Place::kTensor || key_ != "dtype") return Unexpected("a string");
    if (value.size() > 16) return Fail("dtype is longer than any known dtype");
    entry_.dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kTop:
        if (!names_.insert(key_).second) return Fail(absl::StrCat("duplicate name '", key_, "'"));
        place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        entry_ = {};
        entry_.name = key_;
        fields_.clear();
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3) return Fail("dtype, shape or data_offsets is missing");
      if (entry_.offsets.size() != 2) return Fail("data_offsets must hold two numbers");
      header_.tensors.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Unexpected("a list");
    numbers_ = key_ == "shape" ? &entry_.shape : &entry_.offsets;
    place_ = Place::kNumbers;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& value) override {
    if (value.size() > kMaxNameBytes) return Fail("name exceeds the limit of 512 bytes");
    key_ = value;
    if (place_ != Place::kTensor) return true;
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return Fail(absl::StrCat("unknown field '", key_, "'"));
    }
    return fields_.insert(key_).second || Fail(absl::StrCat("duplicate field '", key_, "'"));
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    return Fail(absl::StrCat("not valid JSON near byte ", position));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kNumbers, kEnd };

  bool Fail(absl::string_view what) {
    const bool inside = place_ == Place::kTensor || place_ == Place::kNumbers;
    error_ = inside ? absl::StrCat("tensor '", entry_.name, "': ", what) : std::string(what);
    return false;
  }
  bool Unexpected(absl::string_view what) { return Fail(absl::StrCat("unexpected ", what)); }

  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> fields_;  // of the tensor being read
  TensorHeaderEntry entry_;       // the tensor being read
  std::vector<uint64_t>* numbers_ = nullptr;
  TensorHeader header_;
  std::string error_;
};

}  // namespace

absl::StatusOr<TensorHeader> ParseTensorHeader(absl::string_view json) {
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
    return absl::InvalidArgumentError(absl::StrCat("header: ", handler.error()));
  }
  return handler.Take();
}

}  // namespace chorale
