#include "engine/data/dataset_codec.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "engine/data/column_validation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/data/random_dataset.h"
#include "tests/support/length.h"

namespace chorale {
namespace {

using ::testing::HasSubstr;

Dataset SmallDataset() {
  Dataset dataset;
  Column age;
  age.name = "age";
  age.numbers = {30, std::numeric_limits<double>::quiet_NaN()};
  Column city;
  city.name = "city";
  city.type = ColumnType::kCategorical;
  city.categories = {"Rome", "unused", "Bern"};
  city.codes = {0, 2};
  dataset.features.columns = {age, city};
  dataset.target = "y";
  dataset.y = {1.5, -2};
  return dataset;
}

// What the cells of a column mean, whatever the numbering: one string each.
std::vector<std::string> Cells(const Column& column) {
  std::vector<std::string> cells;
  for (const double x : column.numbers) {
    cells.push_back(std::isnan(x)
                        ? "missing"
                        : absl::StrCat(absl::Hex(std::bit_cast<uint64_t>(x == 0 ? 0.0 : x))));
  }
  for (const int32_t code : column.codes) {
    cells.push_back(code == kMissingCode ? "missing" : column.categories[code]);
  }
  return cells;
}

void ExpectSameContent(const Dataset& a, const Dataset& b) {
  ASSERT_EQ(a.features.columns.size(), b.features.columns.size());
  for (size_t i = 0; i < a.features.columns.size(); ++i) {
    EXPECT_EQ(a.features.columns[i].name, b.features.columns[i].name);
    EXPECT_EQ(a.features.columns[i].type, b.features.columns[i].type);
    EXPECT_EQ(a.features.columns[i].meaning, b.features.columns[i].meaning);
    EXPECT_EQ(Cells(a.features.columns[i]), Cells(b.features.columns[i]));
  }
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.seasons, b.seasons);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.append_starts, b.append_starts);
  EXPECT_EQ(a.y, b.y);
}

// The format is durable: these bytes must decode forever. Written out by hand from RFC 8949.
TEST(DatasetCodecTest, KnownBytes) {
  const std::string expected = absl::StrCat(
      "a5", "67", absl::BytesToHexString("columns"), "82",
      // age
      "a2", "64", absl::BytesToHexString("name"), "63", absl::BytesToHexString("age"), "67",
      absl::BytesToHexString("numbers"), "50", "0000000000003e40", "000000000000f87f",
      // city: Bern, Rome
      "a4", "70", absl::BytesToHexString("category_lengths"), "48", "04000000", "04000000", "6d",
      absl::BytesToHexString("category_text"), "48", absl::BytesToHexString("BernRome"), "65",
      absl::BytesToHexString("codes"), "48", "01000000", "00000000", "64",
      absl::BytesToHexString("name"), "64", absl::BytesToHexString("city"),
      //
      "66", absl::BytesToHexString("format"), "6f", absl::BytesToHexString("chorale dataset"), "66",
      absl::BytesToHexString("target"), "61", absl::BytesToHexString("y"), "67",
      absl::BytesToHexString("version"), "01", "61", absl::BytesToHexString("y"), "50",
      "000000000000f83f", "00000000000000c0");
  EXPECT_EQ(absl::BytesToHexString(EncodeDataset(SmallDataset())), expected);

  absl::StatusOr<Dataset> decoded = DecodeDataset(absl::HexStringToBytes(expected));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectSameContent(*decoded, SmallDataset());
  EXPECT_THAT(decoded->features.columns[1].categories, testing::ElementsAre("Bern", "Rome"));
}

TEST(DatasetCodecTest, DigestIsSha256) {
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(ContentDigest("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DatasetCodecTest, RoundTripOfRandomDatasets) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500; ++i) {
    const Dataset dataset = RandomDataset(random);
    ASSERT_TRUE(ValidateDataset(dataset, Limits()).ok());
    const std::string bytes = EncodeDataset(dataset);
    absl::StatusOr<Dataset> decoded = DecodeDataset(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status() << " at " << i;
    ExpectSameContent(*decoded, dataset);
    EXPECT_EQ(EncodeDataset(*decoded), bytes);
  }
}

TEST(DatasetCodecTest, NumberingOfCategoriesDoesNotMatter) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const Dataset dataset = RandomDataset(random);
    EXPECT_EQ(ContentDigest(EncodeDataset(dataset)),
              ContentDigest(EncodeDataset(Renumbered(dataset, random))));
  }
}

TEST(DatasetCodecTest, EveryNanAndBothZerosAreTheSame) {
  Dataset a = SmallDataset();
  a.features.columns[0].numbers = {0.0, std::numeric_limits<double>::quiet_NaN()};
  a.y = {0.0, 1};
  Dataset b = a;
  b.features.columns[0].numbers = {-0.0, -std::nan("0x123")};
  b.y = {-0.0, 1};
  EXPECT_EQ(EncodeDataset(a), EncodeDataset(b));
}

TEST(DatasetCodecTest, AnyDifferenceChangesTheDigest) {
  const std::string digest = ContentDigest(EncodeDataset(SmallDataset()));
  const auto differs = [&](auto change) {
    Dataset changed = SmallDataset();
    change(changed);
    return ContentDigest(EncodeDataset(changed)) != digest;
  };
  EXPECT_TRUE(differs([](Dataset& d) { d.y[0] = std::nextafter(d.y[0], 9); }));
  EXPECT_TRUE(differs([](Dataset& d) { d.target = "z"; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.seasons = Seasons::kNotSought; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.memory.rows = 64; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.append_starts = {1}; }));
  std::set<std::string> of_policies;
  for (const MemoryPolicy policy : kMemoryPolicies) {
    Dataset changed = SmallDataset();
    changed.memory = {.rows = 64, .policy = policy};
    of_policies.insert(ContentDigest(EncodeDataset(changed)));
  }
  EXPECT_EQ(of_policies.size(), std::size(kMemoryPolicies));
  EXPECT_TRUE(differs([](Dataset& d) { d.features.columns[0].name = "Age"; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.features.columns[0].numbers[1] = 0; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.features.columns[0].meaning = Meaning::kDate; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.features.columns[1].codes[1] = kMissingCode; }));
  EXPECT_TRUE(differs([](Dataset& d) { d.features.columns[1].categories[2] = "Bonn"; }));
  EXPECT_TRUE(differs([](Dataset& d) { std::swap(d.features.columns[0], d.features.columns[1]); }));
}

// Bytes decode only to a valid dataset that encodes to exactly those bytes; else DataLoss.
void ExpectErrorOrExact(const std::string& bytes) {
  absl::StatusOr<Dataset> decoded = DecodeDataset(bytes);
  if (!decoded.ok()) {
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kDataLoss) << decoded.status();
    return;
  }
  EXPECT_TRUE(ValidateDataset(*decoded, NoLimits()).ok());
  EXPECT_EQ(EncodeDataset(*decoded), bytes);
}

TEST(DatasetCodecTest, EveryTruncationIsRefused) {
  const std::string bytes = EncodeDataset(SmallDataset());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(DecodeDataset(absl::string_view(bytes).substr(0, length)).status().code(),
              absl::StatusCode::kDataLoss)
        << length;
  }
  EXPECT_FALSE(DecodeDataset(bytes + '\0').ok());
}

// Every value of every byte; in the short length those that differ in one bit.
TEST(DatasetCodecTest, EveryByteReplaced) {
  const std::string bytes = EncodeDataset(SmallDataset());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int flips = 1; flips < 256; flips = FullLength() ? flips + 1 : flips * 2) {
      std::string mutated = bytes;
      mutated[i] = static_cast<char>(mutated[i] ^ flips);
      ExpectErrorOrExact(mutated);
    }
  }
}

TEST(DatasetCodecTest, RandomMutations) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes = EncodeDataset(RandomDataset(random));
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int e = 0; e < edits && !bytes.empty(); ++e) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        default:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
      }
    }
    ExpectErrorOrExact(bytes);
  }
}

TEST(DatasetCodecTest, DeepNestingAndHugeCountsAreRefusedAtOnce) {
  constexpr size_t kDeep = 4 << 20;
  for (const char nesting : {'\x81', '\x9f', '\x5f', '\x7f', '\xa1', '\xbf', '\xc1', '\xd8'}) {
    EXPECT_FALSE(DecodeDataset(std::string(kDeep, nesting)).ok());
    EXPECT_FALSE(DecodeDataset(absl::StrCat("\xa1\x61k", std::string(kDeep, nesting))).ok());
  }
  for (const char* huge :
       {"9bffffffffffffffff", "bbffffffffffffffff", "5bffffffffffffffff", "7bffffffffffffffff",
        "9b7fffffffffffffff", "bb8000000000000000", "a1616b9b00000000ffffffff"}) {
    EXPECT_FALSE(DecodeDataset(absl::HexStringToBytes(huge)).ok()) << huge;
  }
  // An array of four million empty strings.
  EXPECT_FALSE(
      DecodeDataset(absl::HexStringToBytes("9a00400000") + std::string(4 << 20, '\x60')).ok());
}

TEST(DatasetCodecTest, NonCanonicalBytesAreRefused) {
  const std::string bytes = EncodeDataset(SmallDataset());
  const size_t version = bytes.find("version") + 7;
  // The version written the long way.
  std::string longer = bytes;
  longer.replace(version, 1, "\x18\x01");
  EXPECT_THAT(DecodeDataset(longer).status().message(), HasSubstr("canonical"));
  std::string newer = bytes;
  newer[version] = 2;
  EXPECT_THAT(DecodeDataset(newer).status().message(), HasSubstr("version 1"));
}

// So the digests of tables without them stay what they were.
TEST(DatasetCodecTest, SaysOnlyWhatNumbersMeanThatAreNotPlain) {
  const std::string plain = EncodeDataset(SmallDataset());
  const std::string text = absl::StrCat("\x67", "meaning", "\x64", "date");
  Dataset dataset = SmallDataset();
  dataset.features.columns[0].meaning = Meaning::kDate;
  const std::string bytes = EncodeDataset(dataset);
  std::string expected = plain;
  const size_t column = expected.find("\xa2\x64name");
  expected[column] = '\xa3';
  expected.insert(column + 1, text);
  EXPECT_EQ(bytes, expected);
  for (const Meaning meaning : {Meaning::kBoolean, Meaning::kDuration}) {
    dataset.features.columns[0].meaning = meaning;
    dataset.features.columns[0].numbers[0] = 1;
    const absl::StatusOr<Dataset> decoded = DecodeDataset(EncodeDataset(dataset));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->features.columns[0].meaning, meaning);
  }
  // A name of none, plain numbers said, and a meaning of categories.
  std::string unknown = bytes;
  unknown.replace(unknown.find("\x64"
                               "date"),
                  5,
                  "\x64"
                  "data");
  EXPECT_THAT(DecodeDataset(unknown).status().message(), HasSubstr("malformed"));
  std::string said = bytes;
  said.replace(said.find("\x64"
                         "date"),
               5, "\x66number");
  EXPECT_THAT(DecodeDataset(said).status().message(), HasSubstr("canonical"));
  std::string categories = plain;
  const size_t city = categories.find("\xa4\x70");
  categories[city] = '\xa5';
  categories.insert(categories.find("\x64name", city), text);
  EXPECT_THAT(DecodeDataset(categories).status().message(), HasSubstr("canonical"));
}

TEST(DatasetCodecTest, SaysOnlyWhereSeasonsAreNotSought) {
  Dataset dataset = SmallDataset();
  dataset.seasons = Seasons::kNotSought;
  const std::string bytes = EncodeDataset(dataset);
  const std::string added = "\x67seasons\x6anot sought";
  std::string expected = EncodeDataset(SmallDataset());
  expected.insert(expected.find("\x66target"), added);
  expected[0] = '\xa6';
  EXPECT_EQ(bytes, expected);
  const absl::StatusOr<Dataset> decoded = DecodeDataset(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectSameContent(*decoded, dataset);
  std::string other = bytes;
  other.replace(other.find("not sought"), 10, "whatsoever");
  EXPECT_EQ(DecodeDataset(other).status().code(), absl::StatusCode::kDataLoss);
}

// So the digests of tables without a memory set stay what they were.
TEST(DatasetCodecTest, OnlyDatasetsWithAMemorySetDescribeIt) {
  Dataset dataset = SmallDataset();
  dataset.memory = {.rows = 300, .policy = MemoryPolicy::kMerge};
  const std::string bytes = EncodeDataset(dataset);
  const std::string rows = absl::StrCat("\x6b", "memory_rows", "\x19\x01\x2c");
  const std::string policy = absl::StrCat("\x6d", "memory_policy", "\x65", "merge");
  std::string expected = EncodeDataset(SmallDataset());
  expected.insert(expected.find("\x66target"), policy + rows);
  expected[0] = '\xa7';
  EXPECT_EQ(bytes, expected);
  for (const int64_t size : {int64_t{64}, std::numeric_limits<int64_t>::max()}) {
    for (const MemoryPolicy each : kMemoryPolicies) {
      dataset.memory = {.rows = size, .policy = each};
      const absl::StatusOr<Dataset> decoded = DecodeDataset(EncodeDataset(dataset));
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      ExpectSameContent(*decoded, dataset);
    }
  }

  const auto with = [&](const std::string& old, const std::string& changed) {
    std::string other = bytes;
    other.replace(other.find(old), old.size(), changed);
    return DecodeDataset(other).status();
  };
  EXPECT_THAT(with("merge", "murge").message(), HasSubstr("malformed"));
  EXPECT_THAT(with(rows, absl::StrCat("\x6b", "memory_rows", "\x63", "300")).message(),
              HasSubstr("malformed"));
  EXPECT_THAT(with(rows, absl::StrCat("\x6b", "memory_rows", "\x38", "\x63")).message(),
              HasSubstr("not an encoded dataset"))
      << "negative";
  EXPECT_THAT(
      with(rows, absl::StrCat("\x6b", "memory_rows", "\x1b", std::string(8, '\xff'))).message(),
      HasSubstr("malformed"));
  EXPECT_THAT(with(rows, absl::StrCat("\x6b", "memory_rows", "\x18\x3f")).message(),
              HasSubstr("at least 64"));
  EXPECT_THAT(with(rows, absl::StrCat("\x6b", "memory_rows", std::string(1, '\0'))).message(),
              HasSubstr("canonical"))
      << "none";
  EXPECT_THAT(
      with(rows, absl::StrCat("\x6b", "memory_rows", "\x1a", std::string("\0\0\x01\x2c", 4)))
          .message(),
      HasSubstr("canonical"))
      << "the long way";
  // The other field is missing.
  for (const std::string& field : {policy, rows}) {
    std::string half = bytes;
    half.erase(half.find(field), field.size());
    half[0] = '\xa6';
    EXPECT_EQ(DecodeDataset(half).status().code(), absl::StatusCode::kDataLoss);
  }
  std::string other_order = EncodeDataset(SmallDataset());
  other_order.insert(other_order.find("\x66target"), rows + policy);
  other_order[0] = '\xa7';
  EXPECT_THAT(DecodeDataset(other_order).status().message(), HasSubstr("canonical"));
}

TEST(DatasetCodecTest, SeedsOfTheSameContentDifferByTheirPurpose) {
  EXPECT_EQ(ContentSeed("local rows", "digest"), ContentKey("chorale local rows\ndigest\n"));
  EXPECT_NE(ContentSeed("local rows", "digest"), ContentSeed("memory set", "digest"));
  EXPECT_NE(ContentSeed("memory set", "digest"), ContentSeed("memory set", "other"));
}

}  // namespace
}  // namespace chorale
