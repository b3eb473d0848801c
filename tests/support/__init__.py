"""Code that at least three test files share. Code for the tests of one package is in the directory of these tests."""
