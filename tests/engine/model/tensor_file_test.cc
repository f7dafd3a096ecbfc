#include "engine/model/tensor_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"

namespace chorale {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Bytes = std::vector<uint8_t>;

Bytes WithLength(uint64_t length, const std::string& rest) {
  Bytes bytes(8 + rest.size());
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, rest.data(), rest.size());
  return bytes;
}

// A file with this header and `data_bytes` bytes of data, 0, 1, 2, ...
Bytes File(const std::string& header, size_t data_bytes) {
  std::string data(data_bytes, '\0');
  for (size_t i = 0; i < data_bytes; ++i) data[i] = static_cast<char>(i);
  return WithLength(header.size(), header + data);
}

template <typename T>
Bytes FileOf(const std::string& dtype, const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  Bytes file = File(absl::StrCat(R"({"a":{"dtype":")", dtype, R"(","shape":[)", values.size(),
                                 R"(],"data_offsets":[0,)", bytes, "]}}"),
                    bytes);
  std::memcpy(file.data() + file.size() - bytes, values.data(), bytes);
  return file;
}

void ExpectRefused(const Bytes& bytes, const std::string& reason) {
  const absl::StatusOr<TensorFile> file = TensorFile::Parse(bytes, "some.file");
  ASSERT_FALSE(file.ok()) << "expected: " << reason;
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("some.file: "));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(reason));
}

// A header with a single tensor 'a', given its fields.
void ExpectTensorRefused(const std::string& fields, size_t data_bytes, const std::string& reason) {
  ExpectRefused(File(R"({"a":{)" + fields + "}}", data_bytes), reason);
}

TEST(TensorFileTest, ReadsTensorsAndMetadata) {
  const Bytes bytes = File(R"({"__metadata__":{"format":"pt","by":"hand"},)"
                           R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                           R"("a":{"shape":[],"data_offsets":[0,4],"dtype":"F32"},)"
                           R"("empty":{"dtype":"F16","shape":[7,0],"data_offsets":[28,28]}}   )",
                           28);
  const absl::StatusOr<TensorFile> file = TensorFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->tensors(), SizeIs(3));
  EXPECT_THAT(file->metadata(),
              ElementsAre(testing::Pair("by", "hand"), testing::Pair("format", "pt")));
  const TensorView b = *file->Find("b");
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.elements, 6);
  EXPECT_EQ(b.data.size(), 24u);
  EXPECT_EQ(b.data[0], 4);
  EXPECT_THAT(file->Find("a")->shape, IsEmpty());
  EXPECT_EQ(file->Find("a")->elements, 1);
  EXPECT_EQ(file->Find("empty")->elements, 0);
  EXPECT_EQ(file->Find("c").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file->Find("c").status().message()), HasSubstr("'c' is missing"));
}

TEST(TensorFileTest, ReadsFloat32AndFloat64Exactly) {
  const std::vector<float> floats = {0.1f, -2.5f, 1e-42f, std::numeric_limits<float>::max()};
  const Bytes bytes = FileOf("F32", floats);
  const TensorView view = *TensorFile::Parse(bytes)->Find("a");
  EXPECT_EQ(*ReadFloat32(view), floats);
  EXPECT_EQ(ReadFloat64(view)[0], static_cast<double>(0.1f));

  const std::vector<double> doubles = {0.1, -1e300};
  const Bytes wide = FileOf("F64", doubles);
  const TensorView wide_view = *TensorFile::Parse(wide)->Find("a");
  EXPECT_EQ(ReadFloat64(wide_view), doubles);
  EXPECT_EQ(ReadFloat32(wide_view).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorFileTest, ReadsHalfExactly) {
  // From the definition of IEEE 754 binary16: largest, smallest normal, smallest subnormal.
  const Bytes bytes = FileOf<uint16_t>(
      "F16", {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x8000, 0x7c00, 0x7e00, 0x3555});
  const std::vector<float> values = *ReadFloat32(*TensorFile::Parse(bytes)->Find("a"));
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(values[2], 65504.0f);
  EXPECT_EQ(values[3], 0x1p-14f);
  EXPECT_EQ(values[4], 0x1p-24f);
  EXPECT_EQ(values[5], -1023 * 0x1p-24f);
  EXPECT_EQ(values[6], 0.0f);
  EXPECT_TRUE(std::signbit(values[6]));
  EXPECT_TRUE(std::isinf(values[7]));
  EXPECT_TRUE(std::isnan(values[8]));
  EXPECT_EQ(values[9], 0.333251953125f);
}

TEST(TensorFileTest, ReadsBrainFloatExactly) {
  const Bytes bytes = FileOf<uint16_t>("BF16", {0x3f80, 0xc040, 0x0001, 0x7f80});
  const std::vector<float> values = *ReadFloat32(*TensorFile::Parse(bytes)->Find("a"));
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -3.0f);
  EXPECT_EQ(values[2], 0x1p-133f);
  EXPECT_TRUE(std::isinf(values[3]));
}

TEST(TensorFileTest, RefusesBadHeaderLengths) {
  ExpectRefused({}, "shorter than the 8 bytes");
  ExpectRefused({1, 0, 0, 0, 0, 0, 0}, "shorter than the 8 bytes");
  ExpectRefused(WithLength(3, "{}"), "exceeds the file");
  ExpectRefused(WithLength(~uint64_t{0}, "{}"), "at most 16777216");
  ExpectRefused(WithLength(TensorFile::kMaxHeaderBytes + 1, "{}"), "at most 16777216");
  ExpectRefused(WithLength(0, ""), "does not begin with '{'");
}

TEST(TensorFileTest, RefusesWhatIsNotAHeader) {
  ExpectRefused(File(R"([1])", 0), "does not begin with '{'");
  ExpectRefused(File(R"({"a":)", 0), "not valid JSON");
  ExpectRefused(File(R"({} {})", 0), "not valid JSON");
  ExpectRefused(File("{\"\xff\":1}", 0), "not valid JSON");
  ExpectRefused(File(R"({"a":1})", 0), "unexpected a number");
  ExpectRefused(File(R"({"a":null})", 0), "unexpected null");
  ExpectRefused(File(R"({"a":[]})", 0), "unexpected a list");
  ExpectRefused(File(R"({"__metadata__":{"x":1}})", 0), "unexpected a number");
  ExpectRefused(File(R"({"__metadata__":{"x":{}}})", 0), "unexpected an object");
  ExpectRefused(File(R"({"__metadata__":{"x":"1","x":"2"}})", 0), "duplicate metadata key 'x'");
  ExpectRefused(File("{\"" + std::string(1000, 'n') + "\":{}}", 0),
                "exceeds the limit of 512 bytes");
}

TEST(TensorFileTest, RefusesDeepNestingInConstantMemory) {
  const std::string deep(1 << 20, '[');
  ExpectTensorRefused(R"("shape":)" + deep, 0, "unexpected a list");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"shape":)";
  ExpectRefused(File(objects, 0), "unexpected an object");
}

TEST(TensorFileTest, RefusesBadFields) {
  ExpectTensorRefused(R"("dtype":"F32","shape":[1])", 4, "is missing");
  ExpectTensorRefused(R"("shape":[1],"data_offsets":[0,4])", 4, "is missing");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)", 4,
                      "tensor 'a': unknown field 'x'");
  ExpectTensorRefused(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])", 4,
                      "duplicate field 'dtype'");
  ExpectTensorRefused(R"("dtype":"I64","shape":[1],"data_offsets":[0,8])", 8,
                      "dtype 'I64' is not supported");
  ExpectTensorRefused(R"("dtype":7)", 0, "unexpected a number");
  ExpectTensorRefused(R"("dtype":"F32","shape":"x")", 0, "unexpected a string");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[0])", 4, "two numbers");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])", 4, "two numbers");
  ExpectTensorRefused(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4, "negative");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])", 4, "not an integer");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1e400],"data_offsets":[0,4])", 4, "not valid");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])", 4,
                      "more than 8 numbers");
}

TEST(TensorFileTest, RefusesShapesThatDoNotFit) {
  ExpectTensorRefused(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4,
                      "4 bytes of data, but shape [2] of F32 takes 8");
  // 2^32 * 2^32 elements are 0 modulo 2^64.
  ExpectTensorRefused(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0,
                      "overflows");
  ExpectTensorRefused(R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", 0,
                      "overflows");
  ExpectTensorRefused(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0])", 0,
                      "overflows");
}

TEST(TensorFileTest, RefusesOffsetsOutsideTheData) {
  ExpectTensorRefused(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4, "lie outside");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4, "lie outside");
  ExpectTensorRefused(
      R"("dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615])", 4,
      "lie outside");
}

TEST(TensorFileTest, RefusesOverlapsHolesAndDuplicates) {
  const auto two = [](const std::string& first, const std::string& second, const char* name = "b") {
    return File(absl::StrCat(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)", first, R"(},")",
                             name, R"(":{"dtype":"F32","shape":[1],"data_offsets":)", second, "}}"),
                8);
  };
  EXPECT_TRUE(TensorFile::Parse(two("[0,4]", "[4,8]")).ok());
  EXPECT_TRUE(TensorFile::Parse(two("[4,8]", "[0,4]")).ok());
  ExpectRefused(two("[0,4]", "[2,6]"), "tensor 'b': begins at byte 2");
  ExpectRefused(two("[0,4]", "[0,4]"), "begins at byte 0");
  ExpectRefused(two("[0,4]", "[4,8]", "a"), "duplicate name 'a'");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])", 8, "begins at byte 4");
  ExpectTensorRefused(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])", 8, "cover 4 of 8 bytes");
}

// Whatever single byte is changed and wherever the file ends: an answer, never a crash.
TEST(TensorFileTest, SurvivesEveryTruncationAndByteChange) {
  const Bytes good =
      File(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
           R"("b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}})",
           12);
  ASSERT_TRUE(TensorFile::Parse(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    const Bytes cut(good.begin(), good.begin() + length);
    EXPECT_FALSE(TensorFile::Parse(cut).ok()) << length;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      Bytes changed = good;
      changed[i] ^= static_cast<uint8_t>(1 << bit);
      const absl::StatusOr<TensorFile> file = TensorFile::Parse(changed);
      if (!file.ok()) continue;
      for (const auto& [name, view] : file->tensors()) {
        EXPECT_EQ(ReadFloat64(view).size(), static_cast<size_t>(view.elements));
      }
    }
  }
}

TEST(TensorFileTest, WhatHappensToAnOpenFileDoesNoHarm) {
  const std::string path = testing::TempDir() + "/shrinks.safetensors";
  const Bytes content = FileOf<float>("F32", std::vector<float>(8192, 0.5f));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<int64_t>(content.size()));
  absl::StatusOr<TensorFile> file = TensorFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 0);
  const TensorView view = *file->Find("a");
  EXPECT_THAT(*ReadFloat32(view), Each(0.5f));
  file->Release(view);
  EXPECT_EQ(file->bytes()[8], '{') << "a page with other bytes stays";
}

// At every moment of a truncation the file is read whole or refused with its name and both sizes.
TEST(TensorFileTest, AFileThatShrinksWhileItIsReadIsRefused) {
  const std::string path = testing::TempDir() + "/shrinking.safetensors";
  const size_t bytes = 8 << 20;
  int refused = 0;
  const absl::Time patience_ends = absl::Now() + kPatience;
  // Until some have hit.
  for (int run = 0; run < 50 || (refused < 3 && absl::Now() < patience_ends); ++run) {
    std::ofstream(path, std::ios::binary) << std::string(bytes, 'x');
    std::atomic<bool> begun = false;
    std::thread truncation([&] {
      while (!begun) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(run % 50 * 40));
      std::filesystem::resize_file(path, bytes / 2);
    });
    begun = true;
    const absl::StatusOr<FileBytes> file = FileBytes::Read(path);
    truncation.join();
    if (file.ok()) {
      EXPECT_TRUE(file->bytes().size() == bytes || file->bytes().size() == bytes / 2);
      continue;
    }
    ++refused;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    // It may have had half of its bytes from the first look on, and its time of change not yet.
    EXPECT_THAT(std::string(file.status().message()),
                AllOf(HasSubstr(path), HasSubstr("changed while it was read"),
                      HasSubstr(absl::StrCat("has ", bytes / 2))));
  }
  EXPECT_GT(refused, 0) << "no truncation hit: nothing was tested";
}

TEST(TensorFileTest, AFifoIsNotWaitedFor) {
  const std::string path = testing::TempDir() + "/fifo.safetensors";
  unlink(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(TensorFile::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorFileTest, OpensFiles) {
  const std::string path = testing::TempDir() + "/tensor_file_test.safetensors";
  const Bytes bytes = FileOf<float>("F32", {1, 2, 3});
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  absl::StatusOr<TensorFile> opened = TensorFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const TensorFile moved = *std::move(opened);  // the views stay valid
  EXPECT_THAT(*ReadFloat32(*moved.Find("a")), ElementsAre(1, 2, 3));
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_EQ(TensorFile::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
  std::remove(path.c_str());
  EXPECT_EQ(TensorFile::Open(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(TensorFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace chorale
