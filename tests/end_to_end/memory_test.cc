// The context is there once, however many paths attend to it, and memory is what the formulas say.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/prometheus_page.h"
#include "tests/end_to_end/server_process.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

constexpr int64_t kRows = 4096;
constexpr int64_t kPaths = 512;
constexpr int64_t kQueryRows = 4;

// tests/golden/golden_base/config.json.
constexpr ModelShape kBase = {.d_model = 128, .n_heads = 4, .n_layers = 12};

// Paths run in tiles of 32, two tiles per processor at a time, and a tile's buffer serves one tile
// after another: a request's buffers do not grow with its number of paths beyond that.
int64_t PathsAtATime() {
  constexpr int64_t kTilePaths = 32;
  const int64_t tiles = std::max<int64_t>(4, 2 * std::thread::hardware_concurrency());
  return std::min(kPaths, tiles * kTilePaths);
}

// The largest values seen while it exists. Watches from a thread of its own.
class Watcher {
 public:
  explicit Watcher(const ServerProcess& server) : thread_([this, &server] { Watch(server); }) {}
  ~Watcher() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<int64_t> resident{0};       // VmRSS
  std::atomic<int64_t> context_bytes{0};  // of the metrics page
  std::atomic<int64_t> buffer_bytes{0};

 private:
  void Watch(const ServerProcess& server) {
    while (!stop_) {
      const PrometheusPage page = PrometheusPage::Fetch(server.metrics_address());
      resident = std::max<int64_t>(resident, server.ResidentBytes());
      context_bytes = std::max<int64_t>(context_bytes,
                                        page.Value("chorale_pool_used_bytes", "pool=\"context\""));
      buffer_bytes =
          std::max<int64_t>(buffer_bytes, page.Value("chorale_pool_used_bytes", "pool=\"buffer\""));
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(MemoryTest, FiveHundredPathsShareOneContext) {
  const std::unique_ptr<ServerProcess> server =
      ServerProcess::Start({.models = {GoldenFolder("golden_base")}});
  ASSERT_NE(server, nullptr);
  const ApiClient client(server->address());
  // Registered first, so that what remains is encoding and sampling. A small call before makes the
  // libraries allocate their caches.
  ASSERT_TRUE(client.Register("small", RandomRows(16, 2, 1)).ok());
  const auto registered = client.Register("large", RandomRows(kRows, 2, 2));
  ASSERT_TRUE(registered.ok()) << registered.status.error_message();
  const Rows query_rows = RandomRows(kQueryRows, 2, 3);
  ASSERT_TRUE(client.Sample(MakeSample("small", query_rows, 2, 1)).complete());
  const int64_t small_bytes = ContextBytes(kBase, 16);
  EXPECT_EQ(PrometheusPage::Fetch(server->metrics_address())
                .Value("chorale_pool_used_bytes", "pool=\"context\""),
            small_bytes);

  const int64_t before = server->ResidentBytes();
  ASSERT_GT(before, 0);
  Watcher watcher(*server);
  const Samples samples = client.Sample(MakeSample("large", query_rows, kPaths, 1));
  watcher.Stop();
  ASSERT_TRUE(samples.complete()) << samples.status.error_message() << samples.problem;

  const int64_t context = ContextBytes(kBase, kRows);
  const int64_t buffer = BufferBytes(kBase, PathsAtATime(), kQueryRows);
  EXPECT_EQ(registered.value.context().resident_bytes(), context);
  EXPECT_EQ(watcher.context_bytes, small_bytes + context);
  EXPECT_EQ(watcher.buffer_bytes, buffer);
  // Per path the context would take 512 times as much.
  const int64_t growth = watcher.resident - before;
  std::printf("  context %.1f MB, buffer %.1f MB, the process grew by %.1f MB\n", context / 1e6,
              buffer / 1e6, growth / 1e6);
  // A sanitizer keeps shadow and freed memory of its own: only the pools can be judged then.
  if (!kSanitized) {
    EXPECT_GT(growth, context);  // the measure does see the context
    EXPECT_LE(growth, (context + buffer) * 12 / 10);
  }

  const auto used = [&](const char* pool) {
    return PrometheusPage::Fetch(server->metrics_address())
        .Value("chorale_pool_used_bytes", absl::StrCat("pool=\"", pool, "\""));
  };
  EXPECT_TRUE(Eventually([&] { return used("buffer") == 0; }));
  EXPECT_EQ(used("context"), small_bytes + context);
  // Buffers go back to the operating system, and so does the context once it is deleted.
  if (!kSanitized) {
    EXPECT_LE(server->ResidentBytes() - before, context * 12 / 10);
  }
  ASSERT_TRUE(client.Delete("large").ok());
  EXPECT_TRUE(Eventually([&] { return used("context") == small_bytes; }));
  server->Terminate();
}

// Two bytes on the wire become some sixty in memory when they are a field without content: known
// and repeated, or unknown. That much is there while a request is decoded, and not for the hours
// that a client may take to read a stream.
TEST(MemoryTest, AParsedRequestIsNotKeptForTheLengthOfItsCall) {
  constexpr int kCalls = 10;
  constexpr int kFields = 1'500'000;  // 3 MB
  const std::unique_ptr<ServerProcess> server =
      ServerProcess::Start({.models = {GoldenFolder("golden_tiny")}});
  ASSERT_NE(server, nullptr);
  const ApiClient client(server->address(), ReceiveWindow::kSmall);
  ASSERT_TRUE(client.Register("data", RandomRows(16, 3, 1)).ok());
  v1::SampleRequest request = MakeSample("data", RandomRows(64, 3, 2), 4096, 1);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  google::protobuf::UnknownFieldSet* fields =
      request.GetReflection()->MutableUnknownFields(&request);
  for (int i = 0; i < kFields; ++i) fields->AddLengthDelimited(15, "");
  const auto unfolded = static_cast<int64_t>(request.SpaceUsedLong());

  const int64_t before = server->ResidentBytes();
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::SampleResponse>> reader;  // is not read
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kCalls; ++i) {
    streams.push_back(std::make_unique<Stream>());
    streams.back()->reader = client.stub().Sample(&streams.back()->context, request);
  }
  EXPECT_TRUE(Eventually([&] {
    return PrometheusPage::Fetch(server->metrics_address()).Value("chorale_sessions") == kCalls;
  }));
  const int64_t growth = server->ResidentBytes() - before;
  std::printf("  %d requests of %.1f MB, %.0f MB each when parsed; the process grew by %.0f MB\n",
              kCalls, request.ByteSizeLong() / 1e6, unfolded / 1e6, growth / 1e6);
  if (!kSanitized) {
    EXPECT_LT(growth, kCalls * unfolded / 2);
  }
  for (const auto& stream : streams) {
    stream->context.TryCancel();
    stream->reader->Finish();
  }
  server->Terminate();
}

}  // namespace
}  // namespace chorale::end_to_end
