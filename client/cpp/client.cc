#include "client/cpp/client.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "client/cpp/connection.h"
#include "client/cpp/server_address.h"
#include "client/cpp/status_from_grpc.h"
#include "client/cpp/table_codec.h"

namespace chorale::client {
namespace {

// Large enough for a fast link, small enough to use little memory in the server.
constexpr int64_t kMaxChunkBytes = 512 << 10;
constexpr int64_t kMaxChunkRows = 1 << 16;
constexpr int kPageSize = 1000;

// One attempt of a registration: its stream from the spec to the response.
class Upload {
 public:
  Upload(v1::Chorale::Stub* stub, absl::string_view context_id, const Deadline& deadline,
         const Cancellation* cancellation)
      : call_(context_id, deadline, cancellation) {
    writer_ = stub->PrepareAsyncRegisterContext(call_.context(), &response_, call_.queue());
    writer_->StartCall(Call::tag());
    open_ = call_.Wait();
  }

  // Writes one message. Returns false if the server has ended the call; Finish returns the reason.
  bool Write(const v1::RegisterContextRequest& message) {
    if (!open_) return false;
    writer_->Write(message, Call::tag());
    open_ = call_.Wait();
    return open_;
  }

  absl::Status Finish() {
    if (open_) {
      writer_->WritesDone(Call::tag());
      call_.Wait();
    }
    grpc::Status status;
    writer_->Finish(&status, Call::tag());
    call_.Wait();
    return call_.Result(status);
  }

  v1::RegisterContextResponse* response() { return &response_; }

 private:
  Call call_;
  v1::RegisterContextResponse response_;
  std::unique_ptr<grpc::ClientAsyncWriter<v1::RegisterContextRequest>> writer_;
  bool open_ = false;
};

absl::Status CheckRegistration(const DataFrame& table, const RegisterOptions& options) {
  if (table.row_count() == 0) return absl::InvalidArgumentError("the table has no rows");
  const DataColumn* target = table.Find(options.target_column);
  if (target == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("target_column: the table has no column '", options.target_column, "'"));
  }
  if (target->kind == ColumnKind::kCategorical) {
    return absl::InvalidArgumentError(
        absl::StrCat("target_column: column '", options.target_column,
                     "' is categorical, but a target must be numeric"));
  }
  const bool drops = options.missing_targets == RegisterOptions::MissingTargets::kDrop;
  if (const int64_t missing = target->missing_count(); missing > 0 && !drops) {
    return absl::InvalidArgumentError(absl::StrCat("target_column: column '", options.target_column,
                                                   "' has ", missing,
                                                   " missing cells, but a target must have none"));
  }
  return absl::OkStatus();
}

std::string ContextName(const std::string& id) { return absl::StrCat("contexts/", id); }

}  // namespace

Client::Client(std::unique_ptr<Connection> connection, ClientOptions options)
    : connection_(std::move(connection)), options_(std::move(options)) {}

Client::~Client() = default;

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ClientOptions& options,
                                                        const Cancellation* cancellation) {
  ASSIGN_OR_RETURN(const ServerAddress server, ParseServerAddress(address));
  ClientOptions with_scheme = options;
  if (server.scheme == AddressScheme::kTls && !options.tls.has_value()) {
    with_scheme.tls = TlsOptions{};
  }
  if (server.scheme == AddressScheme::kPlain && options.tls.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server's address '", address,
                     "' has a scheme without encryption, but TLS is requested"));
  }
  RETURN_IF_ERROR(CheckToken(server.address, with_scheme));
  auto connection = std::make_unique<Connection>(server.address, with_scheme);
  const absl::Time deadline = Clock::Real()->Now() + options.connect_timeout;
  absl::Status status = connection->WaitUntilReady(deadline, cancellation);
  RETURN_IF_ERROR(status);
  return std::unique_ptr<Client>(new Client(std::move(connection), with_scheme));
}

absl::Duration Client::TimeoutOf(const CallOptions& call) const {
  return call.timeout > absl::ZeroDuration() ? call.timeout : options_.call_timeout;
}

absl::Status Client::Run(const CallOptions& call,
                         absl::FunctionRef<absl::Status(const Deadline&)> attempt) const {
  const auto deadline = Deadline::After(TimeoutOf(call));
  return WithRetry(options_.retry, deadline.at, call.cancellation,
                   [&] { return attempt(deadline); });
}

absl::StatusOr<Registration> Client::RegisterContext(const std::string& id, const DataFrame& table,
                                                     const RegisterOptions& options,
                                                     const CallOptions& call) {
  RETURN_IF_ERROR(CheckRegistration(table, options));
  v1::RegisterContextRequest first;
  v1::ContextSpec& spec = *first.mutable_spec();
  spec.set_context_id(id);
  spec.set_target_column(options.target_column);
  spec.set_row_count(table.row_count());
  if (options.seasons == RegisterOptions::Seasons::kNotSought) {
    spec.set_seasons(v1::ContextSpec::SEASONS_OFF);
  }
  spec.set_memory_row_count(options.memory_rows);
  spec.set_memory_policy(options.memory_policy);
  spec.set_validate_only(options.validate_only);
  spec.set_replace(options.replace);
  spec.set_etag(options.etag);
  spec.set_description(options.description);
  spec.mutable_labels()->insert(options.labels.begin(), options.labels.end());
  if (options.ttl != absl::InfiniteDuration()) {
    absl::Duration rest;
    spec.mutable_ttl()->set_seconds(absl::IDivDuration(options.ttl, absl::Seconds(1), &rest));
    spec.mutable_ttl()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  }
  if (options.missing_targets == RegisterOptions::MissingTargets::kDrop) {
    spec.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  }
  if (!options.model.empty()) {
    spec.set_model(absl::StrCat("models/", options.model));
  }
  const std::vector<RowRange> chunks = SplitRows(table, kMaxChunkBytes, kMaxChunkRows);
  Registration registration;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    Upload upload(connection_->calls(), id, deadline, call.cancellation);
    bool open = upload.Write(first);
    for (size_t i = 0; open && i < chunks.size(); ++i) {
      v1::RegisterContextRequest message;
      *message.mutable_rows() = EncodeRows(table, chunks[i], TableUse::kRegister);
      open = upload.Write(message);
      if (open && options.on_progress) options.on_progress(chunks[i].end);
    }
    absl::Status end = upload.Finish();
    if (end.ok()) {
      registration.context = std::move(*upload.response()->mutable_context());
      registration.already_registered = upload.response()->already_registered();
      registration.replaced = upload.response()->replaced();
      registration.estimate = upload.response()->estimate();
      registration.warnings.assign(upload.response()->warnings().begin(),
                                   upload.response()->warnings().end());
    }
    return end;
  });
  RETURN_IF_ERROR(status);
  return registration;
}

absl::StatusOr<v1::Context> Client::GetContext(const std::string& id, const CallOptions& call) {
  v1::GetContextRequest request;
  request.set_name(ContextName(id));
  v1::Context context;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncGetContext, request, id,
                     deadline, call.cancellation, &context);
  });
  RETURN_IF_ERROR(status);
  return context;
}

absl::StatusOr<AppendedRows> Client::AppendRows(const std::string& id, const DataFrame& rows,
                                                const AppendOptions& options,
                                                const CallOptions& call) {
  if (rows.row_count() == 0) return absl::InvalidArgumentError("rows: the table has no rows");
  v1::AppendRowsRequest request;
  request.set_name(ContextName(id));
  *request.mutable_rows() = EncodeTable(rows, TableUse::kRegister);
  if (options.first_row.has_value()) request.set_first_row(*options.first_row);
  request.set_etag(options.etag);
  if (!options.expected_source.context_digest().empty()) {
    *request.mutable_expected_source() = options.expected_source;
  }
  if (options.missing_targets == MissingTargets::kDrop) {
    request.set_missing_targets(v1::ContextSpec::MISSING_TARGETS_DROP);
  }
  request.set_validate_only(options.validate_only);
  v1::AppendRowsResponse response;
  bool open = false;  // whether an attempt may have appended the rows
  const auto attempt = [&](const Deadline& deadline) {
    absl::Status end = UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncAppendRows,
                                 request, id, deadline, call.cancellation, &response);
    open = open || (!options.validate_only && LeavesOutcomeOpen(end));
    return end;
  };
  const bool idempotent = options.first_row.has_value() || options.validate_only;
  const absl::Status status =
      idempotent ? Run(call, attempt) : attempt(Deadline::After(TimeoutOf(call)));
  // Aborted names the rows that the context has.
  if (!status.ok() && open && !absl::IsAborted(status)) return WithUnknownOutcome(status);
  RETURN_IF_ERROR(status);
  AppendedRows appended;
  appended.context = std::move(*response.mutable_context());
  appended.row_count = response.appended_row_count();
  appended.already_appended = response.already_appended();
  appended.warnings.assign(response.warnings().begin(), response.warnings().end());
  appended.estimate = response.estimate();
  return appended;
}

absl::StatusOr<v1::Context> Client::WarmContext(const std::string& id, const CallOptions& call) {
  return Warm({}, id, call);
}

absl::StatusOr<v1::Context> Client::EncodeAnew(const std::string& id, const CallOptions& call) {
  v1::WarmContextRequest request;
  request.set_encode_anew(true);
  return Warm(std::move(request), id, call);
}

absl::StatusOr<v1::Context> Client::Warm(v1::WarmContextRequest request, const std::string& id,
                                         const CallOptions& call) {
  request.set_name(ContextName(id));
  v1::Context context;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncWarmContext, request, id,
                     deadline, call.cancellation, &context);
  });
  RETURN_IF_ERROR(status);
  return context;
}

absl::Status Client::DeleteContext(const std::string& id, const DeleteOptions& options,
                                   const CallOptions& call) {
  v1::DeleteContextRequest request;
  request.set_name(ContextName(id));
  request.set_etag(options.etag);
  request.set_allow_missing(options.allow_missing);
  const auto attempt = [&](const Deadline& deadline) {
    google::protobuf::Empty nothing;
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncDeleteContext, request,
                     id, deadline, call.cancellation, &nothing);
  };
  if (options.allow_missing) return Run(call, attempt);
  // Not retried: if only the response was lost, the second attempt would return NotFound.
  return attempt(Deadline::After(TimeoutOf(call)));
}

template <typename Item, typename Request, typename Response, typename Start>
absl::StatusOr<std::vector<Item>> Client::ListPages(
    const CallOptions& call, Request request, Start start,
    const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const) {
  std::vector<Item> all;
  request.set_page_size(kPageSize);
  absl::flat_hash_set<std::string> tokens;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    while (true) {
      Response page;
      absl::Status page_status = UnaryCall(connection_->calls(), start, request, /*context_id=*/"",
                                           deadline, call.cancellation, &page);
      RETURN_IF_ERROR(page_status);
      all.insert(all.end(), (page.*items)().begin(), (page.*items)().end());
      if (page.next_page_token().empty()) return absl::OkStatus();
      if (!tokens.insert(page.next_page_token()).second) {
        return absl::InternalError(
            "the server returned the same page token twice: the list would not end");
      }
      request.set_page_token(page.next_page_token());
    }
  });
  RETURN_IF_ERROR(status);
  return all;
}

absl::StatusOr<std::vector<v1::Context>> Client::ListContexts(const ListOptions& options,
                                                              const CallOptions& call) {
  v1::ListContextsRequest request;
  request.set_filter(options.filter);
  request.set_order_by(options.order_by);
  request.set_view(options.features ? v1::CONTEXT_VIEW_FULL : v1::CONTEXT_VIEW_BASIC);
  return ListPages<v1::Context, v1::ListContextsRequest, v1::ListContextsResponse>(
      call, std::move(request), &v1::Chorale::Stub::PrepareAsyncListContexts,
      &v1::ListContextsResponse::contexts);
}

absl::StatusOr<std::vector<v1::Model>> Client::ListModels(const CallOptions& call) {
  return ListPages<v1::Model, v1::ListModelsRequest, v1::ListModelsResponse>(
      call, v1::ListModelsRequest(), &v1::Chorale::Stub::PrepareAsyncListModels,
      &v1::ListModelsResponse::models);
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo(const CallOptions& call) {
  v1::ServerInfo info;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    return UnaryCall(connection_->calls(), &v1::Chorale::Stub::PrepareAsyncGetServerInfo,
                     v1::GetServerInfoRequest(), /*context_id=*/"", deadline, call.cancellation,
                     &info);
  });
  RETURN_IF_ERROR(status);
  return info;
}

}  // namespace chorale::client
