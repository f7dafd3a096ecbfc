#include "server/rpc/message.h"

#include <string>
#include <vector>

#include "chorale/v1/chorale.pb.h"
#include "gtest/gtest.h"
#include "tests/server/tables.h"

namespace chorale {
namespace {

// The bytes in slices of `size`.
grpc::ByteBuffer Slices(const std::string& bytes, size_t size) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += size) slices.emplace_back(bytes.substr(i, size));
  return {slices.data(), slices.size()};
}

TEST(MessageTest, WhatIsSerializedParses) {
  v1::RegisterContextRequest message;
  AddNumeric(message.mutable_rows(), "price", std::vector<double>(100'000, 1.5));  // many blocks
  grpc::ByteBuffer bytes = SerializeMessage(message);
  EXPECT_EQ(bytes.Length(), message.ByteSizeLong());
  v1::RegisterContextRequest parsed;
  ASSERT_TRUE(ParseMessage(&bytes, &parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(bytes.Length(), 0u);
}

TEST(MessageTest, AnEmptyMessageIsAMessage) {
  grpc::ByteBuffer bytes = SerializeMessage(v1::ListModelsRequest());
  EXPECT_TRUE(bytes.Valid());
  v1::ListModelsRequest parsed;
  EXPECT_TRUE(ParseMessage(&bytes, &parsed).ok());
}

TEST(MessageTest, HowItIsSlicedDoesNotMatter) {
  v1::PredictRequest message;
  *message.mutable_rows() = SmallTable();
  for (size_t size : {1, 2, 7, 1000}) {
    grpc::ByteBuffer bytes = Slices(message.SerializeAsString(), size);
    v1::PredictRequest parsed;
    ASSERT_TRUE(ParseMessage(&bytes, &parsed).ok());
    EXPECT_EQ(parsed.SerializeAsString(), message.SerializeAsString());
  }
}

TEST(MessageTest, BytesOfNoMessageAreRefusedByType) {
  v1::PredictRequest message;
  message.set_context("contexts/houses");
  const std::string bytes = message.SerializeAsString();
  std::string not_utf8 = bytes;
  not_utf8.back() = '\xff';
  for (const std::string& bad : {bytes.substr(0, bytes.size() - 1), not_utf8,
                                 std::string("\xff\xff\xff"), std::string(1000, '\x0c')}) {
    grpc::ByteBuffer buffer = Slices(bad, 5);
    v1::PredictRequest parsed;
    const absl::Status status = ParseMessage(&buffer, &parsed);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("chorale.v1.PredictRequest"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace chorale
