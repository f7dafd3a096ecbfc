#!/usr/bin/env python3
"""Tests of check_words.py."""

import unittest

import check_words

GUIDE = """# Guide

| use | for | not |
| --- | --- | --- |
| evict | remove | make room |

## Banned phrases

| phrase | write instead |
| --- | --- |
| not any more | no longer |
| draws in, drawn in | clips |
"""


class CheckWordsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.phrases = check_words.banned_phrases(GUIDE)

    def found(self, text: str) -> list[tuple[int, str]]:
        return sorted(check_words.finds(text, self.phrases))

    def test_the_last_table_is_the_list(self) -> None:
        self.assertEqual(self.phrases, {'not any more': 'no longer', 'draws in': 'clips',
                                        'drawn in': 'clips'})

    def test_phrases_are_found_with_their_line(self) -> None:
        self.assertEqual(self.found('It is\nNot any\nmore here, and drawn in.\n'),
                         [(2, 'not any more'), (3, 'drawn in')])

    def test_parts_of_words_are_no_phrases(self) -> None:
        self.assertEqual(self.found('redrawn inside'), [])

    def test_code_and_comments_are_not_looked_at(self) -> None:
        self.assertEqual(self.found('`drawn in`\n```sh\ndrawn in\n```\n<!-- drawn\nin -->\n'), [])

    def test_the_project_s_list_is_read(self) -> None:
        phrases = check_words.banned_phrases(check_words.GUIDE.read_text(encoding='utf-8'))
        self.assertGreater(len(phrases), 10)

    def test_all_pages_but_the_guide_are_checked(self) -> None:
        pages = {str(page.relative_to(check_words.ROOT)) for page in check_words.pages()}
        self.assertLessEqual({'README.md', 'docs/operations.md', 'deploy/envoy/README.md',
                              '.github/pull_request_template.md'}, pages)
        self.assertNotIn('docs/style_guide.md', pages)


if __name__ == '__main__':
    unittest.main()
