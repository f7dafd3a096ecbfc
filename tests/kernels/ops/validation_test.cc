// Bad parameters are refused with a message that names the field and the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/ops/append_kv.h"
#include "kernels/ops/embed_rows.h"
#include "kernels/ops/key_attention.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/merge_keys.h"
#include "kernels/ops/mixture_head.h"
#include "kernels/ops/shared_context_attention.h"
#include "kernels/ops/spread_in_cells.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::kernels {
namespace {

MATCHER_P(IsInvalid, text, "is InvalidArgument with the text") {
  *result_listener << arg;
  return arg.code() == absl::StatusCode::kInvalidArgument &&
         std::string(arg.message()).find(text) != std::string::npos;
}

float storage[1] = {};
int32_t indices[3] = {0, 1, 1};

LinearParams GoodLinear() {
  LinearParams p;
  p.x = p.weight = storage;
  p.y = storage;
  p.rows = 1;
  p.in = p.x_stride = 4;
  p.out = p.y_stride = 8;
  return p;
}

TEST(ValidateLinearTest, NamesFieldAndLimit) {
  EXPECT_TRUE(ValidateLinear(GoodLinear()).ok());
  LinearParams p = GoodLinear();
  p.weight = nullptr;
  EXPECT_THAT(ValidateLinear(p), IsInvalid("weight is null"));
  p = GoodLinear();
  p.rows = 0;
  EXPECT_THAT(ValidateLinear(p), IsInvalid("rows is 0, must be at least 1"));
  p = GoodLinear();
  p.x_stride = 3;
  EXPECT_THAT(ValidateLinear(p), IsInvalid("x_stride is 3, must be at least 4"));
  p = GoodLinear();
  p.y_stride = 7;
  EXPECT_THAT(ValidateLinear(p), IsInvalid("y_stride is 7, must be at least 8"));
}

TEST(ValidateLayerNormTest, NamesFieldAndLimit) {
  LayerNormParams good;
  good.x = good.gamma = good.beta = storage;
  good.y = storage;
  good.rows = good.width = 1;
  EXPECT_TRUE(ValidateLayerNorm(good).ok());
  LayerNormParams p = good;
  p.gamma = nullptr;
  EXPECT_THAT(ValidateLayerNorm(p), IsInvalid("gamma is null"));
  p = good;
  p.width = -1;
  EXPECT_THAT(ValidateLayerNorm(p), IsInvalid("width is -1"));
  p = good;
  p.epsilon = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ValidateLayerNorm(p), IsInvalid("epsilon"));
}

TEST(ValidateEmbedRowsTest, NamesFieldAndLimit) {
  EmbedRowsParams good;
  good.encodings = good.offsets = storage;
  good.encoding = good.offset = indices;
  good.out = storage;
  good.rows = 3;
  good.width = 1;
  EXPECT_TRUE(ValidateEmbedRows(good).ok());
  EmbedRowsParams p = good;
  p.y = storage;
  EXPECT_THAT(ValidateEmbedRows(p), IsInvalid("y_weight is null"));
  const int32_t negative[3] = {0, -1, 0};
  p = good;
  p.offset = negative;
  EXPECT_THAT(ValidateEmbedRows(p), IsInvalid("offset is -1, must be at least 0"));
}

TEST(ValidateAppendKvTest, NamesFieldAndLimit) {
  AppendKvParams good;
  good.k = good.v = storage;
  good.keys = good.values = storage;
  good.n = 2;
  good.offset = 3;
  good.capacity = 5;
  good.kv_heads = 2;
  good.head_dim = 4;
  good.kv_stride = 8;
  EXPECT_TRUE(ValidateAppendKv(good).ok());
  AppendKvParams p = good;
  p.offset = 4;
  EXPECT_THAT(ValidateAppendKv(p), IsInvalid("must be at most capacity 5"));
  p.offset = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(ValidateAppendKv(p), IsInvalid("must be at most capacity 5"));
  p = good;
  p.kv_stride = 7;
  EXPECT_THAT(ValidateAppendKv(p), IsInvalid("kv_stride is 7, must be at least 8"));
}

SharedContextAttentionParams GoodAttention() {
  SharedContextAttentionParams p;
  p.q = storage;
  p.out = storage;
  p.context_keys = p.context_values = p.buffer_keys = p.buffer_values = storage;
  p.row_path = indices;
  p.row_visible = indices;
  p.rows = 3;
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 16;
  p.context_rows = 10;
  p.context_capacity = 12;
  p.buffer_capacity = 2;
  p.buffer_path_stride = 1000;
  p.q_stride = p.out_stride = 64;
  p.scale = 0.25f;
  return p;
}

TEST(ValidateAttentionTest, NamesFieldAndLimit) {
  EXPECT_TRUE(ValidateSharedContextAttention(GoodAttention()).ok());
  SharedContextAttentionParams p = GoodAttention();
  p.head_dim = 24;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("head_dim is 24"));
  p = GoodAttention();
  p.kv_heads = 3;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("kv_heads is 3, must divide heads 4"));
  p = GoodAttention();
  p.q_stride = 63;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("q_stride is 63, must be at least 64"));
  p = GoodAttention();
  p.context_values = nullptr;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("context_values is null"));
  p.context_rows = 0;
  EXPECT_TRUE(ValidateSharedContextAttention(p).ok());
  p = GoodAttention();
  p.context_capacity = 9;
  EXPECT_THAT(ValidateSharedContextAttention(p),
              IsInvalid("context_capacity is 9, must be at least 10"));
  p = GoodAttention();
  p.scale = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("scale"));
}

TEST(ValidateAttentionTest, ChecksEveryRowOfTheBuffers) {
  SharedContextAttentionParams p = GoodAttention();
  const int32_t unsorted[3] = {0, 2, 1};
  p.row_path = unsorted;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("row_path[2] is 1, must be at least 2"));
  p = GoodAttention();
  const int32_t too_many[3] = {0, 1, 3};
  p.row_visible = too_many;
  EXPECT_THAT(ValidateSharedContextAttention(p),
              IsInvalid("row_visible[2] is 3, must be between 0 and buffer_capacity 2"));
  p = GoodAttention();
  p.row_visible = nullptr;
  EXPECT_THAT(ValidateSharedContextAttention(p), IsInvalid("row_visible is null"));
  p = GoodAttention();
  p.buffer_path_stride = 63;
  EXPECT_THAT(ValidateSharedContextAttention(p),
              IsInvalid("buffer_path_stride is 63, must be at least 64"));
}

TEST(ValidateAttentionTest, ChecksTheHiddenKeys) {
  SharedContextAttentionParams p = GoodAttention();
  const int32_t hidden[6] = {-1, 9, 0, 0, 10, 0};
  p.row_hidden_key = hidden;
  EXPECT_THAT(ValidateSharedContextAttention(p),
              IsInvalid("row_hidden_key[2, 0] is 10, must be -1, or less than context_rows 10"));
  p.rows = 2;
  EXPECT_TRUE(ValidateSharedContextAttention(p).ok());
}

TEST(ValidateKeyAttentionTest, NamesFieldAndLimit) {
  double importance[1] = {};
  KeyAttentionParams good;
  good.q = good.out = good.lse = good.context_keys = good.context_values = storage;
  good.importance = importance;
  good.rows = 3;
  good.heads = 4;
  good.kv_heads = 2;
  good.head_dim = 16;
  good.context_rows = 40;
  good.first_key = 16;
  good.keys = 24;
  good.q_stride = good.out_stride = 64;
  good.scale = 0.25f;
  EXPECT_TRUE(ValidateKeyAttention(good).ok());
  KeyAttentionParams p = good;
  p.lse = nullptr;
  EXPECT_THAT(ValidateKeyAttention(p), IsInvalid("lse is null"));
  p = good;
  p.first_key = 8;
  EXPECT_THAT(ValidateKeyAttention(p), IsInvalid("first_key is 8, must be a multiple of 16"));
  p = good;
  p.keys = 25;
  EXPECT_THAT(ValidateKeyAttention(p), IsInvalid("must be at most context_rows 40"));
  p = good;
  p.out_stride = 63;
  EXPECT_THAT(ValidateKeyAttention(p), IsInvalid("out_stride is 63, must be at least 64"));
}

TEST(ValidateSpreadKeysTest, NamesFieldAndLimit) {
  double weight[1] = {};
  SpreadKeysParams good;
  good.keys = storage;
  good.weight = weight;
  good.distance = storage;
  good.nearest = good.centres = indices;
  good.n = 30;
  good.head_dim = 16;
  good.centre_count = 20;
  good.first_centre = 8;
  good.end_centre = 20;
  EXPECT_TRUE(ValidateSpreadKeys(good).ok());
  SpreadKeysParams p = good;
  p.nearest = nullptr;
  EXPECT_THAT(ValidateSpreadKeys(p), IsInvalid("nearest is null"));
  p = good;
  p.n = 19;
  EXPECT_THAT(ValidateSpreadKeys(p), IsInvalid("n is 19, must be at least 20"));
  p = good;
  p.first_centre = 4;
  EXPECT_THAT(ValidateSpreadKeys(p), IsInvalid("first_centre is 4, must be a multiple of 8"));
  p = good;
  p.end_centre = 12;
  EXPECT_THAT(ValidateSpreadKeys(p), IsInvalid("end_centre is 12, must be a multiple of 8"));
  p.end_centre = 8;
  EXPECT_THAT(ValidateSpreadKeys(p), IsInvalid("end_centre is 8, must be at least 9"));
}

TEST(ValidateSpreadInCellTest, NamesFieldAndLimit) {
  double weight[1] = {};
  SpreadInCellParams good;
  good.keys = good.cell_panels = good.distance = storage;
  good.weight = good.cell_weight = weight;
  good.member = good.nearest_place = good.nearest = indices;
  good.n = 60;
  good.head_dim = 16;
  good.cell_keys = 30;
  good.coarse_centre = 59;
  good.centre_count = 20;
  good.first_centre = 8;
  good.end_centre = 20;
  EXPECT_TRUE(ValidateSpreadInCell(good).ok());
  SpreadInCellParams p = good;
  p.cell_panels = nullptr;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("cell_panels is null"));
  p = good;
  p.head_dim = 24;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("head_dim is 24"));
  p = good;
  p.n = 29;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("n is 29, must be at least 30"));
  p = good;
  p.coarse_centre = 60;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("n is 60, must be at least 61"));
  p = good;
  p.centre_count = 31;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("n is 30, must be at least 31"));
  p = good;
  p.first_centre = 4;
  EXPECT_THAT(ValidateSpreadInCell(p), IsInvalid("first_centre is 4, must be a multiple of 8"));
}

TEST(ValidateMergeKeysTest, NamesFieldAndLimit) {
  const int32_t begin[3] = {0, 1, 3};
  MergeKeysParams good;
  good.keys = good.values = storage;
  good.member = indices;
  good.group_begin = begin;
  good.out_keys = good.out_values = good.out_log_weights = storage;
  good.n = 2;
  good.head_dim = 16;
  good.groups = good.end_group = 2;
  EXPECT_TRUE(ValidateMergeKeys(good).ok());
  MergeKeysParams p = good;
  p.n = 1;
  EXPECT_THAT(ValidateMergeKeys(p), IsInvalid("member[1] is 1, must be less than n 1"));
  p = good;
  const int32_t empty[3] = {0, 1, 1};
  p.group_begin = empty;
  EXPECT_THAT(ValidateMergeKeys(p), IsInvalid("group_begin[2] is 1, must be above 1"));
  p = good;
  p.end_group = 3;
  EXPECT_THAT(ValidateMergeKeys(p), IsInvalid("groups is 2, must be at least 3"));
}

TEST(ValidateMixtureHeadTest, NamesFieldAndLimit) {
  MixtureHeadParams good;
  double doubles[6] = {};
  good.mean_bias = good.std_bias = good.weight_bias = storage;
  good.raw = good.mean = good.std = good.log_weight = doubles;
  good.rows = 1;
  good.components = 2;
  good.raw_stride = 6;
  good.std_min = 0.1f;
  good.std_max = 1;
  EXPECT_TRUE(ValidateMixtureHead(good).ok());
  MixtureHeadParams p = good;
  p.raw_stride = 5;
  EXPECT_THAT(ValidateMixtureHead(p), IsInvalid("raw_stride is 5, must be at least 6"));
  p = good;
  p.std_min = -1;
  EXPECT_THAT(ValidateMixtureHead(p), IsInvalid("std_min"));
}

}  // namespace
}  // namespace chorale::kernels
