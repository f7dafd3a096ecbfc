#include "client/cli/quantiles.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/csv.h"

namespace chorale::client {

CLI::Option* AddQuantilesOption(CLI::App* command, std::vector<double>* quantiles) {
  return command
      ->add_option("--quantiles", *quantiles,
                   "Probabilities of the quantiles, each strictly between 0 and 1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("P,...")
      ->check([](const std::string& text) {
        double p = 0.0;
        const bool good = CLI::detail::lexical_cast(text, p) && p > 0.0 && p < 1.0;
        return good ? std::string() : "must lie strictly between 0 and 1: " + text;
      });
}

std::string QuantileName(double p) {
  std::string text = absl::StrCat(p);
  double read = 0.0;
  if (!absl::SimpleAtod(text, &read) || read != p) text = FormatDouble(p);
  return absl::StrCat("q", text);
}

absl::Status CheckQuantiles(std::vector<double> quantiles) {
  std::sort(quantiles.begin(), quantiles.end());
  const auto repeated = std::adjacent_find(quantiles.begin(), quantiles.end());
  if (repeated == quantiles.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--quantiles: ", FormatDouble(*repeated), " is given twice"));
}

}  // namespace chorale::client
