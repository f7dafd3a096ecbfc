// A server's metrics as its HTTP endpoint shows them.
#ifndef CHORALE_TESTS_END_TO_END_PROMETHEUS_PAGE_H_
#define CHORALE_TESTS_END_TO_END_PROMETHEUS_PAGE_H_

#include <map>
#include <string>

namespace chorale::end_to_end {

// One reading of the page. Immutable.
class PrometheusPage {
 public:
  // GET http://address/path. Empty, with ok() false, when nothing answers with 200.
  static PrometheusPage Fetch(const std::string& address, const std::string& path = "/metrics");

  bool ok() const { return ok_; }
  const std::string& text() const { return text_; }

  // Sum of all series of that name whose labels contain `labels` (for example `code="OK"`).
  double Value(const std::string& name, const std::string& labels = "") const;
  bool Has(const std::string& name, const std::string& labels = "") const;
  // The "# TYPE" of a metric: "counter", "gauge", "histogram" or "".
  std::string Type(const std::string& name) const;

 private:
  bool ok_ = false;
  std::string text_;
  std::map<std::string, double> series_;      // "name{labels}" to value
  std::map<std::string, std::string> types_;  // name to type
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_PROMETHEUS_PAGE_H_
