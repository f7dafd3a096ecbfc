#include "tests/end_to_end/shared_server.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "tests/end_to_end/model_files.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {

std::unique_ptr<SharedServer> SharedServer::Start(std::vector<std::string> flags) {
  auto shared = std::make_unique<SharedServer>();
  shared->process_ = ServerProcess::Start(
      {.models = {GoldenFolder("golden_tiny")}, .data_dir = "", .flags = std::move(flags)});
  if (shared->process_ == nullptr) return nullptr;
  shared->client_ = std::make_unique<ApiClient>(shared->address());
  const auto registered = shared->client_->Register("data", RandomRows(200, 3, 1));
  EXPECT_TRUE(registered.ok()) << registered.status.error_message();
  EXPECT_TRUE(shared->client_->Warm("data").ok());
  const absl::Time start = absl::Now();
  shared->undisturbed_ = shared->client_->Sample(ShortSession());
  shared->undisturbed_time_ = absl::Now() - start;
  EXPECT_EQ(Difference(shared->undisturbed_, shared->undisturbed_), "");
  return shared;
}

v1::SampleRequest SharedServer::ShortSession() {
  v1::SampleRequest request = MakeSample("data", RandomRows(40, 3, 2), 100, 5);
  request.set_include_log_densities(true);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

// A sanitized server takes several times as long for each row.
v1::SampleRequest SharedServer::LongSession() {
  v1::SampleRequest request = MakeSample("data", RandomRows(kSanitized ? 400 : 800, 3, 3), 256, 6);
  request.set_include_log_densities(true);
  request.set_beyond_buffer(v1::BEYOND_BUFFER_WRAP);
  return request;
}

void SharedServer::Terminate() {
  client_.reset();
  process_->Terminate();
}

void SharedServer::ExpectUndisturbed() {
  const auto used = [this] {
    return Metrics().Value("chorale_pool_used_bytes", "pool=\"buffer\"");
  };
  EXPECT_TRUE(Eventually([&] { return used() == 0; }))
      << "buffers are still in use: " << used() << " bytes";
  EXPECT_EQ(Difference(client_->Sample(ShortSession()), undisturbed_), "");
}

}  // namespace chorale::end_to_end
