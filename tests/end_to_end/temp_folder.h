// A fresh folder that disappears with its owner.
#ifndef CHORALE_TESTS_END_TO_END_TEMP_FOLDER_H_
#define CHORALE_TESTS_END_TO_END_TEMP_FOLDER_H_

#include <string>

namespace chorale::end_to_end {

// Aborts when the folder cannot be made: no test can run without it. Not thread-safe.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& content);

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_TEMP_FOLDER_H_
