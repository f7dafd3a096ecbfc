// chorale ls, show, rm and warm
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/command_line.h"
#include "client/cli/commands.h"
#include "client/cli/context_report.h"

namespace chorale::client {
namespace {

struct NameArgument {
  std::string name;
};

struct WarmArguments {
  std::string name;
  bool encode_anew = false;
};

struct RemoveArguments {
  std::string name;
  DeleteOptions options;
};

absl::Status RunList(const ListOptions& options, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(std::vector<v1::Context> contexts,
                   client->ListContexts(options, environment->call()));
  return WriteContexts(contexts, environment);
}

absl::Status RunShow(const NameArgument& arguments, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(v1::Context context, client->GetContext(arguments.name, environment->call()));
  return WriteContext(context, environment);
}

absl::Status RunRemove(const RemoveArguments& arguments, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  absl::Status status =
      client->DeleteContext(arguments.name, arguments.options, environment->call());
  if (status.ok()) environment->Note(absl::StrCat("context '", arguments.name, "' was deleted"));
  return status;
}

absl::Status RunWarm(const WarmArguments& arguments, Environment* environment) {
  ASSIGN_OR_RETURN(Client* const client, environment->Connect());
  ASSIGN_OR_RETURN(v1::Context context,
                   arguments.encode_anew
                       ? client->EncodeAnew(arguments.name, environment->call())
                       : client->WarmContext(arguments.name, environment->call()));
  return WriteContext(context, environment);
}

}  // namespace

void AddContextCommands(CLI::App* app, Environment* environment) {
  auto list = std::make_shared<ListOptions>();
  CLI::App* listing = AddCommand(app, environment, "ls", "List contexts", list, RunList);
  listing->add_option("--filter", list->filter,
                      "Conditions, such as 'labels.team = \"sales\" AND row_count >= 1000'");
  listing->add_option("--order-by", list->order_by,
                      "A field, such as create_time or 'dataset_bytes desc' [name]");
  auto show = std::make_shared<NameArgument>();
  CLI::App* showing =
      AddCommand(app, environment, "show", "Show a context and its features", show, RunShow);
  showing->add_option("NAME", show->name, "Name of the context")->required();
  auto remove = std::make_shared<RemoveArguments>();
  CLI::App* command = AddCommand(app, environment, "rm", "Delete a context", remove, RunRemove);
  command->add_option("NAME", remove->name, "Name of the context")->required();
  command->add_option("--etag", remove->options.etag, "Etag that the context must have [any]");
  command->add_flag("--allow-missing", remove->options.allow_missing,
                    "Succeed if there is no such context");
  auto warm = std::make_shared<WarmArguments>();
  CLI::App* warming =
      AddCommand(app, environment, "warm",
                 "Make a context resident, so that the next call does not wait", warm, RunWarm);
  warming->add_option("NAME", warm->name, "Name of the context")->required();
  warming->add_flag("--encode-anew", warm->encode_anew,
                    "Encode a context with appended rows anew as a whole, as if all rows had been "
                    "registered together");
}

}  // namespace chorale::client
