// 500 generated requests, each with one fault: the error has the right code, field and reason.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "engine/data/limits.h"
#include "gtest/gtest.h"
#include "server/codec/dataset_assembler.h"
#include "server/codec/list_decoder.h"
#include "server/codec/request_decoder.h"
#include "tests/server/codec/table_faults.h"

namespace chorale {
namespace {

constexpr int kRequests = 500;

// Small, so that generated tables can exceed them.
Limits SmallLimits() {
  Limits limits;
  limits.max_context_rows = 12;
  limits.max_query_rows = 12;
  limits.max_features = 10;
  limits.max_categories = 8;
  limits.max_name_bytes = 24;
  return limits;
}

using SpecFault = std::function<Expected(Random* random, v1::ContextSpec* spec)>;

std::vector<SpecFault> SpecFaults() {
  return {
      [](Random* random, v1::ContextSpec* spec) {
        const char* const bad[] = {"", "Upper", "-a", "a b", "a/b", "\u00E4"};
        spec->set_context_id(bad[random->Between(0, 5)]);
        return Expected{"spec.context_id"};
      },
      [](Random* /*random*/, v1::ContextSpec* spec) {
        spec->clear_target_column();
        return Expected{"spec.target_column"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_target_column(std::string(random->Between(25, 300), 'n'));
        return Expected{"spec.target_column", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_row_count(-random->Between(1, 1000));
        return Expected{"spec.row_count"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_row_count(random->Between(13, 1000));
        return Expected{"spec.row_count", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_seasons(static_cast<v1::ContextSpec::Seasons>(random->Between(3, 99)));
        return Expected{"spec.seasons"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        const bool negative = random->Between(0, 1) == 0;
        spec->set_memory_row_count(negative ? -random->Between(1, 1000) : random->Between(1, 63));
        return Expected{"spec.memory_row_count"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_memory_row_count(100);
        spec->set_memory_policy(static_cast<v1::MemoryPolicy>(random->Between(4, 99)));
        return Expected{"spec.memory_policy"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_memory_policy(static_cast<v1::MemoryPolicy>(random->Between(1, 3)));
        return Expected{"spec.memory_policy"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_missing_targets(
            static_cast<v1::ContextSpec::MissingTargets>(random->Between(3, 99)));
        return Expected{"spec.missing_targets"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        const char* const bad[] = {"m", "models/", "contexts/m", "models/M"};
        spec->set_model(bad[random->Between(0, 3)]);
        return Expected{"spec.model"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->set_description(std::string(random->Between(4097, 9000), 'd'));
        return Expected{"spec.description", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ContextSpec* spec) {
        const char* const bad[] = {"", "Team", "-team", "a b", "\u00E4"};
        (*spec->mutable_labels())[bad[random->Between(0, 4)]] = "x";
        return Expected{"spec.labels"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        (*spec->mutable_labels())["team"] = std::string(random->Between(64, 300), 'x');
        return Expected{"spec.labels", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ContextSpec* spec) {
        for (int i = random->Between(65, 90); i > 0; --i) {
          (*spec->mutable_labels())[absl::StrCat("key-", i)] = "x";
        }
        return Expected{"spec.labels", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->mutable_expire_time()->set_seconds(random->Between(0, 1) == 0 ? -1 : 7'258'118'400);
        return Expected{"spec.expire_time"};
      },
      [](Random* random, v1::ContextSpec* spec) {
        spec->mutable_ttl()->set_seconds(random->Between(0, 1) == 0 ? 0 : 4'000'000'000);
        return Expected{"spec.ttl"};
      },
      [](Random* /*random*/, v1::ContextSpec* spec) {
        spec->set_etag("0123");
        return Expected{"spec.etag"};
      },
  };
}

using ListFault = std::function<Expected(Random* random, v1::ListContextsRequest* request)>;

std::vector<ListFault> ListFaults() {
  return {
      [](Random* random, v1::ListContextsRequest* request) {
        const char* const bad[] = {"rows > 1",
                                   "row_count",
                                   "row_count > x",
                                   "name = a",
                                   "create_time > \"2026\"",
                                   "labels = 1",
                                   "row_count > 1 OR",
                                   "target_column = \"x"};
        request->set_filter(bad[random->Between(0, 7)]);
        return Expected{"filter"};
      },
      [](Random* random, v1::ListContextsRequest* request) {
        request->set_filter(std::string(random->Between(4097, 9000), ' '));
        return Expected{"filter", ErrorReason::kLimitExceeded};
      },
      [](Random* random, v1::ListContextsRequest* request) {
        const char* const bad[] = {"rows", "model", "name asc", "name, row_count"};
        request->set_order_by(bad[random->Between(0, 3)]);
        return Expected{"order_by"};
      },
      [](Random* random, v1::ListContextsRequest* request) {
        request->set_view(static_cast<v1::ContextView>(random->Between(3, 99)));
        return Expected{"view"};
      },
  };
}

void ExpectError(const absl::Status& status, const Expected& expected) {
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorField(status), expected.field) << status;
  EXPECT_EQ(ErrorReasonOf(status), NameOf(expected.reason)) << status;
}

v1::ContextSpec ValidSpec() {
  v1::ContextSpec spec;
  spec.set_context_id("a");
  spec.set_target_column("column 0");
  return spec;
}

absl::Status Register(const v1::ContextSpec& spec, const v1::Table& table) {
  DatasetAssembler assembler(SmallLimits());
  v1::CreateContextRequest request;
  *request.mutable_spec() = spec;
  *request.mutable_rows() = table;
  const absl::Status added = assembler.Add(request);
  return added.ok() ? assembler.Finish().status() : added;
}

// One of the calls with query rows.
absl::Status Query(int call, const v1::Table& rows) {
  switch (call) {
    case 0: {
      v1::PredictRequest request;
      request.set_context("contexts/a");
      *request.mutable_rows() = rows;
      return DecodePredict(request, SmallLimits()).status();
    }
    case 1: {
      v1::SampleRequest request;
      request.set_context("contexts/a");
      request.set_path_count(1);
      *request.mutable_rows() = rows;
      return DecodeSample(request, SmallLimits()).status();
    }
    case 2: {
      v1::SummarizeRequest request;
      request.set_context("contexts/a");
      request.set_path_count(2);
      *request.mutable_rows() = rows;
      return DecodeSummarize(request, SmallLimits()).status();
    }
    default: {
      v1::LogDensityRequest request;
      request.set_context("contexts/a");
      *request.mutable_rows() = rows;
      return DecodeLogDensity(request, SmallLimits()).status();
    }
  }
}

TEST(BadRequestsTest, EveryErrorHasItsFieldAndReason) {
  const std::vector<TableFault> query_faults = TableFaults();
  const std::vector<TableFault> registration_faults = RegistrationFaults();
  const std::vector<SpecFault> spec_faults = SpecFaults();
  const std::vector<ListFault> list_faults = ListFaults();
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(absl::StrCat("request ", i));
    Random random(i);
    const int rows = random.Between(1, 10);
    v1::Table table = ValidTable(rows, &random);
    v1::ContextSpec spec = ValidSpec();
    ASSERT_TRUE(Register(spec, table).ok()) << Register(spec, table);
    ASSERT_TRUE(Query(i % 4, table).ok()) << Query(i % 4, table);
    const auto choose = [&](const auto& faults) {
      return faults[random.Between(0, static_cast<int>(faults.size()) - 1)];
    };
    switch (i % 5) {
      case 0: {
        const Expected expected = choose(spec_faults)(&random, &spec);
        ExpectError(Register(spec, table), expected);
        break;
      }
      case 1: {
        const Expected expected = choose(registration_faults)(rows, &random, &table);
        ExpectError(Register(spec, table), expected);
        break;
      }
      case 2: {
        v1::ListContextsRequest request;
        ASSERT_TRUE(DecodeContextQuery(request).ok());
        const Expected expected = choose(list_faults)(&random, &request);
        ExpectError(DecodeContextQuery(request).status(), expected);
        break;
      }
      default: {
        const Expected expected = choose(query_faults)(rows, &random, &table);
        ExpectError(Query(i % 4, table), expected);
      }
    }
  }
}

}  // namespace
}  // namespace chorale
