// Who may use the shipped binary: TLS, client certificates, tokens, roles, tenants, and what the
// log says about it.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/secure_server.h"
#include "tests/support/eventually.h"

namespace chorale::end_to_end {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using Code = grpc::StatusCode;

// What `openssl s_client` says about a handshake with these options.
std::string Handshake(const std::string& address, const std::string& options) {
  const std::string command =
      absl::StrCat("timeout 20 openssl s_client -connect ", address, " -alpn h2 -cipher ",
                   "'ALL:@SECLEVEL=0' ", options, " </dev/null 2>&1");
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string output;
  char buffer[4096];
  while (const size_t bytes = std::fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, bytes);
  }
  pclose(pipe);
  return output;
}

std::vector<std::string> LinesWith(const std::string& log, const std::string& text) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, text)) lines.emplace_back(line);
  }
  return lines;
}

// A unary call of any method with an empty request.
grpc::Status CallMethod(const std::string& address,
                        const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                        const std::string& method) {
  grpc::GenericStub stub(grpc::CreateChannel(address, credentials));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  grpc::CompletionQueue queue;
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, &response);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

using SecurityTest = SecureServerTest;

TEST_F(SecurityTest, OldTlsAndPlaintextAreRefused) {
  Start();
  EXPECT_THAT(Handshake(server_->address(), "-tls1_1"), HasSubstr("Cipher is (NONE)"));
  for (const char* version : {"-tls1_2", "-tls1_3"}) {
    EXPECT_THAT(Handshake(server_->address(), version),
                AllOf(HasSubstr("Cipher is "), Not(HasSubstr("Cipher is (NONE)"))))
        << version;
  }
  EXPECT_EQ(ListModels(ApiClient(server_->address())).error_code(), Code::UNAVAILABLE);
  EXPECT_TRUE(ListModels(Client("acme")).ok());
}

TEST_F(SecurityTest, EveryConnectionHasTheNewestCertificate) {
  Start();
  // More than there are threads that hand connections over, at the same time and one by one.
  const auto names_are = [this](const std::string& name) {
    std::atomic<int> found{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] {
        for (int j = 0; j < 6; ++j) {
          found += absl::StrContains(Handshake(server_->address(), "-tls1_3"), "CN = " + name);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    return found == 48;
  };
  EXPECT_TRUE(names_are("server"));
  PutServerCertificate(authority_.IssueServer("second"));
  EXPECT_TRUE(Eventually([&] { return names_are("second"); }));
}

// Without client authorities no certificate is asked for, and one that is there says nothing.
TEST_F(SecurityTest, TlsNeedsNoClientCertificates) {
  ServerOptions options = {.models = {GoldenFolder("golden_tiny")},
                           .flags = {"--tls_certificate=" + Path("crt"), "--tls_key=" + Path("key"),
                                     "--token_file=" + Path("tokens")},
                           .tls = true};
  server_ = ServerProcess::Start(options);
  ASSERT_NE(server_, nullptr);
  EXPECT_TRUE(ListModels(Client("acme")).ok());
  EXPECT_EQ(ListModels(Client("")).error_code(), Code::UNAUTHENTICATED);
  EXPECT_EQ(ListModels(ClientOf(authority_.IssueServer())).error_code(), Code::UNAUTHENTICATED);
  EXPECT_THAT(Handshake(server_->address(), "-tls1_3"),
              HasSubstr("No client certificate CA names sent"));
  // Its certificate changes all the same.
  const TestPair next = authority_.IssueServer("second");
  PutServerCertificate(next);
  EXPECT_TRUE(Eventually(
      [&] { return absl::StrContains(Handshake(server_->address(), "-tls1_3"), "CN = second"); }));
}

TEST_F(SecurityTest, ClientCertificatesAreThoseOfTenants) {
  Replace("tenants",
          "tenants:\n"
          "  acme:\n"
          "    certificates:\n"
          "      - {dns: reader.acme.example, role: read}\n"
          "  zeta:\n"
          "    certificates:\n"
          "      - {subject: \"CN=writer,O=Tests\", role: register}\n"
          "      - {uri: \"spiffe://zeta/one\", role: read}\n");
  Start();
  const ApiClient reader = ClientOf(authority_.Issue({"anything", "DNS:reader.acme.example"}));
  EXPECT_TRUE(ListModels(reader).ok());
  EXPECT_EQ(reader.Delete("x").error_code(), Code::PERMISSION_DENIED);
  const ApiClient writer = ClientOf(authority_.Issue({"writer"}));
  EXPECT_TRUE(writer.Register("data", RandomRows(50, 3, 1)).ok());
  EXPECT_EQ(reader.Get("data").status.error_code(), Code::NOT_FOUND);
  const ApiClient one = ClientOf(authority_.Issue({"one", "URI:spiffe://zeta/one"}));
  EXPECT_TRUE(one.Get("data").ok());

  EXPECT_EQ(ListModels(Client("")).error_code(), Code::UNAUTHENTICATED);
  EXPECT_EQ(ListModels(ClientOf(authority_.Issue({"stranger"}))).error_code(),
            Code::UNAUTHENTICATED);
  const TestAuthority other("other");
  EXPECT_EQ(ListModels(ClientOf(other.Issue({"writer"}))).error_code(), Code::UNAVAILABLE);
  const TestPair expired =
      authority_.Issue({.common_name = "writer", .valid_until = -absl::Hours(1)});
  EXPECT_EQ(ListModels(ClientOf(expired)).error_code(), Code::UNAVAILABLE);
}

// Each call makes a connection of its own, so each sees the certificate of that moment.
TEST_F(SecurityTest, CertificatesAreSwappedWithoutAFailedCall) {
  Start();
  std::atomic<bool> stop{false};
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> failures{0};
  std::vector<std::thread> callers;
  callers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!stop) {
        failures += ListModels(Client("acme")).ok() ? 0 : 1;
        ++calls;
      }
    });
  }
  const auto name_seen = [&] {
    const ApiClient client = Client("acme");
    grpc::ClientContext context;
    v1::ListModelsResponse response;
    if (!client.stub().ListModels(&context, {}, &response).ok()) return std::string();
    const auto names = context.auth_context()->FindPropertyValues("x509_common_name");
    return names.empty() ? std::string() : std::string(names[0].data(), names[0].size());
  };
  EXPECT_EQ(name_seen(), "server");
  EXPECT_NEAR(Page().Value("chorale_tls_certificate_expiry_seconds"),
              absl::ToDoubleSeconds(absl::Now() + absl::Hours(24) - absl::UnixEpoch()), 600);
  for (const std::string name : {"second", "third"}) {
    const TestPair next = authority_.IssueServer(name);
    Replace("crt", next.certificate);
    if (name == "second") {  // the key comes late: until then the old pair serves
      EXPECT_TRUE(Eventually(
          [&] { return Page().Value("chorale_config_reloads_total", "result=\"error\"") > 0; }));
      EXPECT_EQ(name_seen(), "server");
    }
    Replace("key", next.key);
    EXPECT_TRUE(Eventually([&] { return name_seen() == name; }));
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_GT(calls, 10);
  EXPECT_EQ(failures, 0);
}

TEST_F(SecurityTest, TokensComeAndGoOnOpenConnections) {
  Start();
  const ApiClient later = Client("later");
  const ApiClient acme = Client("acme");
  EXPECT_EQ(ListModels(later).error_code(), Code::UNAUTHENTICATED);
  EXPECT_TRUE(ListModels(acme).ok());
  PutTokens(TokenLine("later", "zeta", "read"));
  EXPECT_TRUE(Eventually([&] { return ListModels(later).ok(); }));
  Replace("tokens", "this is no token\n");
  EXPECT_TRUE(Eventually(
      [&] { return Page().Value("chorale_config_reloads_total", "result=\"error\"") > 0; }));
  EXPECT_TRUE(ListModels(acme).ok());
  EXPECT_TRUE(ListModels(later).ok());
  server_->ExpectLog("tokens: line 1: the hash must be");
  PutTokens();
  EXPECT_TRUE(Eventually([&] { return ListModels(later).error_code() == Code::UNAUTHENTICATED; }));
  EXPECT_TRUE(ListModels(acme).ok());
}

TEST_F(SecurityTest, AnExpiredTokenIsRefusedLikeAWrongOne) {
  PutTokens(TokenLine("old", "acme", "admin", "2020-01-01T00:00:00Z"));
  Start();
  const grpc::Status old = ListModels(Client("old"));
  const grpc::Status wrong = ListModels(Client("wrong"));
  const grpc::Status none = ListModels(Client(""));
  EXPECT_EQ(old.error_code(), Code::UNAUTHENTICATED);
  for (const grpc::Status& other : {wrong, none}) {
    EXPECT_EQ(other.error_code(), old.error_code());
    EXPECT_EQ(other.error_message(), old.error_message());
    EXPECT_EQ(other.error_details(), old.error_details());
  }
}

TEST_F(SecurityTest, RolesOpenTheirMethods) {
  Start();
  const std::vector<std::pair<std::string, bool>> methods = {
      {"GetContext", false},   {"ListContexts", false},  {"WarmContext", false},
      {"Predict", false},      {"Sample", false},        {"LogDensity", false},
      {"GetModel", false},     {"ListModels", false},    {"RegisterContext", true},
      {"DeleteContext", true}, {"GetServerInfo", false}, {"AppendRows", true},
  };
  const auto code = [&](const std::string& token, const std::string& method) {
    const auto credentials = token.empty()
                                 ? Tls()
                                 : grpc::CompositeChannelCredentials(
                                       Tls(), grpc::AccessTokenCredentials(token + "-token"));
    return CallMethod(server_->address(), credentials, "/chorale.v1.Chorale/" + method)
        .error_code();
  };
  for (const auto& [method, changes] : methods) {
    SCOPED_TRACE(method);
    EXPECT_EQ(code("", method), Code::UNAUTHENTICATED);
    EXPECT_EQ(code("wrong", method), Code::UNAUTHENTICATED);
    // An empty request gets further, and is refused for what it says, if at all.
    if (changes) {
      EXPECT_EQ(code("acme-reader", method), Code::PERMISSION_DENIED);
    } else {
      EXPECT_NE(code("acme-reader", method), Code::PERMISSION_DENIED);
    }
    for (const char* token : {"acme-reader", "acme", "acme-admin"}) {
      EXPECT_NE(code(token, method), Code::UNAUTHENTICATED);
    }
    for (const char* token : {"acme", "acme-admin"}) {
      EXPECT_NE(code(token, method), Code::PERMISSION_DENIED);
    }
  }
}

TEST_F(SecurityTest, HealthIsOpenAndReflectionIsNotServed) {
  Start();
  EXPECT_TRUE(CallMethod(server_->address(), Tls(), "/grpc.health.v1.Health/Check").ok());
  for (const std::string package : {"grpc.reflection.v1", "grpc.reflection.v1alpha"}) {
    const std::string method = "/" + package + ".ServerReflection/ServerReflectionInfo";
    EXPECT_EQ(CallMethod(server_->address(), Tls(), method).error_code(), Code::UNIMPLEMENTED);
  }
}

// No answer to a tenant tells whether another has a context of that name.
TEST_F(SecurityTest, WhatIsAnothersLooksLikeNothing) {
  Start();
  const ApiClient acme = Client("acme");
  const ApiClient zeta = Client("zeta");
  const Rows rows = RandomRows(100, 3, 1);
  ASSERT_TRUE(acme.Register("theirs", rows).ok());
  ASSERT_TRUE(acme.Warm("theirs").ok());
  const Rows query_rows = RandomRows(2, 3, 2);
  const std::vector<std::function<grpc::Status(const std::string&)>> calls = {
      [&](const std::string& id) { return zeta.Get(id).status; },
      [&](const std::string& id) { return zeta.Delete(id); },
      [&](const std::string& id) { return zeta.Warm(id).status; },
      [&](const std::string& id) { return zeta.Predict(MakePredict(id, query_rows)).status; },
      [&](const std::string& id) { return zeta.Sample(MakeSample(id, query_rows, 2, 1)).status; },
      [&](const std::string& id) {
        return zeta.LogDensity(MakeLogDensity(id, query_rows, {1, 2})).status;
      },
  };
  for (const auto& call : calls) {
    const grpc::Status theirs = call("theirs");
    const grpc::Status nobodys = call("nobody");
    EXPECT_EQ(theirs.error_code(), Code::NOT_FOUND);
    EXPECT_EQ(nobodys.error_code(), Code::NOT_FOUND);
    EXPECT_EQ(absl::StrReplaceAll(theirs.error_message(), {{"theirs", "nobody"}}),
              nobodys.error_message());
    EXPECT_EQ(absl::StrReplaceAll(theirs.error_details(), {{"theirs", "nobody"}}),
              nobodys.error_details());
  }
  EXPECT_TRUE(zeta.List().value.empty());
  EXPECT_EQ(acme.List().value.size(), 1);
  EXPECT_TRUE(acme.Predict(MakePredict("theirs", query_rows)).ok());
}

// Asked in turn, in a random order, so that whatever else goes on slows both alike. What the
// quickest tenth took says most of it: those were held up by nothing else. A busy machine may give
// times that say nothing; a difference that is there, is there each time.
TEST_F(SecurityTest, WhatIsAnothersTakesNoLongerThanNothing) {
  Start();
  ASSERT_TRUE(Client("acme").Register("theirs", RandomRows(5000, 5, 1)).ok());
  ASSERT_TRUE(Client("acme").Warm("theirs").ok());
  const ApiClient zeta = Client("zeta");
  const v1::PredictRequest theirs = MakePredict("theirs", RandomRows(2, 5, 2));
  const v1::PredictRequest nobodys = MakePredict("nobody", RandomRows(2, 5, 2));
  const auto time = [&](const v1::PredictRequest& request) {
    const absl::Time start = absl::Now();
    EXPECT_EQ(zeta.Predict(request).status.error_code(), Code::NOT_FOUND);
    return absl::ToDoubleMicroseconds(absl::Now() - start);
  };
  const auto quick = [](std::vector<double> times) {
    const auto tenth = times.begin() + static_cast<int64_t>(times.size() / 10);
    std::nth_element(times.begin(), tenth, times.end());
    return *tenth;
  };
  std::minstd_rand coin(1);
  const auto ratio_of = [&](int calls) {
    std::vector<double> of_theirs;
    std::vector<double> of_nobodys;
    for (int i = 0; i < calls; ++i) {
      const bool first = coin() % 2 == 0;
      if (first) of_theirs.push_back(time(theirs));
      of_nobodys.push_back(time(nobodys));
      if (!first) of_theirs.push_back(time(theirs));
    }
    return quick(of_theirs) / quick(of_nobodys);
  };
  std::vector<double> ratios;
  const auto alike = [&ratios] {
    return !ratios.empty() && ratios.back() > 0.75 && ratios.back() < 1.33;
  };
  for (int attempt = 0; attempt < 5 && !alike(); ++attempt) ratios.push_back(ratio_of(400));
  EXPECT_TRUE(alike()) << ::testing::PrintToString(ratios);
}

// Neither names nor contents are shared.
TEST_F(SecurityTest, TenantsShareNothing) {
  Start();
  const ApiClient acme = Client("acme");
  const ApiClient zeta = Client("zeta");
  const Rows rows = RandomRows(100, 3, 1);
  const auto first = acme.Register("data", rows);
  ASSERT_TRUE(first.ok());
  const double bytes = Page().Value("chorale_dataset_bytes");
  EXPECT_GT(bytes, 0);
  const auto second = zeta.Register("data", rows);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second.value.already_registered());
  EXPECT_EQ(second.value.context().digest(), first.value.context().digest());
  EXPECT_TRUE(Eventually([&] { return Page().Value("chorale_dataset_bytes") == 2 * bytes; }));
  ASSERT_TRUE(acme.Warm("data").ok());
  EXPECT_EQ(acme.Get("data").value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_NE(zeta.Get("data").value.state(), v1::Context::STATE_RESIDENT);
  EXPECT_TRUE(zeta.Delete("data").ok());
  EXPECT_TRUE(acme.Predict(MakePredict("data", RandomRows(2, 3, 2))).ok());
  // A name in use elsewhere is free here, for any content.
  EXPECT_TRUE(zeta.Register("data", RandomRows(10, 2, 7)).ok());
  EXPECT_EQ(acme.Get("data").value.row_count(), 100);
}

TEST_F(SecurityTest, TheLogSaysWhoChangedWhat) {
  Start();
  const ApiClient acme = Client("acme");
  const auto audit = [&] { return LinesWith(server_->log(), " audit "); };
  // A line may come a moment after the answer.
  const auto expect_lines = [&](size_t count) {
    EXPECT_TRUE(Eventually([&] { return audit().size() >= count; })) << count;
  };
  EXPECT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  expect_lines(1);
  EXPECT_TRUE(acme.Register("data", RandomRows(50, 3, 1)).ok());
  expect_lines(2);
  EXPECT_FALSE(acme.Register("data", RandomRows(50, 3, 2)).ok());
  expect_lines(3);
  EXPECT_TRUE(ListModels(acme).ok());  // changes nothing, and has no line
  EXPECT_TRUE(acme.Delete("data").ok());
  expect_lines(4);
  EXPECT_FALSE(ListModels(Client("wrong")).ok());
  expect_lines(5);
  EXPECT_FALSE(Client("acme-reader").Delete("data").ok());
  expect_lines(6);
  const std::vector<std::string> lines = audit();
  ASSERT_EQ(lines.size(), 6);
  const auto by_acme = AllOf(HasSubstr("tenant=acme caller=acme role=register peer=127.0.0.1"),
                             HasSubstr("context=data"), HasSubstr("request_id="));
  EXPECT_THAT(lines[0], AllOf(by_acme, HasSubstr("info audit method=RegisterContext code=OK"),
                              HasSubstr("outcome=created")));
  EXPECT_THAT(lines[1], AllOf(by_acme, HasSubstr("outcome=unchanged")));
  EXPECT_THAT(lines[2], AllOf(by_acme, HasSubstr("code=ALREADY_EXISTS")));
  EXPECT_THAT(lines[3], AllOf(by_acme, HasSubstr("method=DeleteContext code=OK")));
  EXPECT_THAT(lines[4],
              HasSubstr("audit method=ListModels code=UNAUTHENTICATED tenant=- caller=\"\" peer="));
  EXPECT_THAT(lines[5], HasSubstr("method=DeleteContext code=PERMISSION_DENIED tenant=acme "
                                  "caller=acme-reader role=read"));
  EXPECT_THAT(server_->log(), Not(HasSubstr("-token")));
}

}  // namespace
}  // namespace chorale::end_to_end
