// The switch of all mutants that one build holds. tests/mutation/mutants.py writes it into copies
// of the sources: `a < b` becomes `a < Less{17, 18} < b`, which is a < b, but a <= b when
// FORESHOCK_MUTANT=17 is in the environment and a >= b when it is 18. Number 0 is no mutant.
//
// A placeholder binds as the operator that it stands for does, so that precedence stays as it was.
// Everything is forced inline: the files are compiled for several instruction sets, and the linker
// must not pick one's functions for another.
#pragma once

#include <initializer_list>

namespace foreshock::mutation {

#define FORESHOCK_MUTANT_INLINE [[gnu::always_inline]] inline

// mutant.cc. Whether FORESHOCK_MUTANT is `number`.
bool IsOn(int number);

// Operators with what may stand for them.
#define FORESHOCK_MUTANT_OPERATOR(Name, op, first, second)                                \
  struct Name {                                                                           \
    int a, b;                                                                             \
  };                                                                                      \
  template <typename Left>                                                                \
  struct Name##Of {                                                                       \
    Left&& left;                                                                          \
    Name name;                                                                            \
  };                                                                                      \
  template <typename Left>                                                                \
  FORESHOCK_MUTANT_INLINE Name##Of<Left> operator op(Left&& left, Name name) {            \
    return {static_cast<Left&&>(left), name};                                             \
  }                                                                                       \
  template <typename Left, typename Right>                                                \
  FORESHOCK_MUTANT_INLINE auto operator op(Name##Of<Left>&& of, Right&& right)            \
      ->decltype(static_cast<Left&&>(of.left) op static_cast<Right&&>(right)) {           \
    using Result = decltype(static_cast<Left&&>(of.left) op static_cast<Right&&>(right)); \
    if (IsOn(of.name.a)) return static_cast<Result>(of.left first right);                 \
    if (IsOn(of.name.b)) return static_cast<Result>(of.left second right);                \
    return static_cast<Left&&>(of.left) op static_cast<Right&&>(right);                   \
  }

FORESHOCK_MUTANT_OPERATOR(Plus, +, -, -)
FORESHOCK_MUTANT_OPERATOR(Minus, -, +, +)
FORESHOCK_MUTANT_OPERATOR(Times, *, /, /)
FORESHOCK_MUTANT_OPERATOR(Over, /, *, *)
FORESHOCK_MUTANT_OPERATOR(Modulo, %, *, *)
FORESHOCK_MUTANT_OPERATOR(Less, <, <=, >=)
FORESHOCK_MUTANT_OPERATOR(LessOrEqual, <=, <, >)
FORESHOCK_MUTANT_OPERATOR(Greater, >, >=, <=)
FORESHOCK_MUTANT_OPERATOR(GreaterOrEqual, >=, >, <)
FORESHOCK_MUTANT_OPERATOR(Equal, ==, !=, !=)
FORESHOCK_MUTANT_OPERATOR(NotEqual, !=, ==, ==)
FORESHOCK_MUTANT_OPERATOR(And, &, |, |)
FORESHOCK_MUTANT_OPERATOR(Or, |, &, &)
FORESHOCK_MUTANT_OPERATOR(Xor, ^, &, &)
FORESHOCK_MUTANT_OPERATOR(ShiftLeft, <<, >>, >>)
FORESHOCK_MUTANT_OPERATOR(ShiftRight, >>, <<, <<)

// Flip{n}->*!x is !x, or x.
struct Flip {
  int n;
};
FORESHOCK_MUTANT_INLINE bool operator->*(Flip flip, bool value) { return value != IsOn(flip.n); }

// A condition, or true, or false.
FORESHOCK_MUTANT_INLINE bool Condition(int always, int never, bool value) {
  if (IsOn(always)) return true;
  if (IsOn(never)) return false;
  return value;
}

template <typename T>
FORESHOCK_MUTANT_INLINE T Constant(int n, T value, T other) {
  return IsOn(n) ? other : value;
}

// What is added, or subtracted.
template <typename T>
FORESHOCK_MUTANT_INLINE auto Negated(int n, T&& value) {
  using Value = decltype(value + value);
  return IsOn(n) ? static_cast<Value>(-value) : static_cast<Value>(value);
}

// std::max and std::min, or the other one.
template <int n, bool max>
struct Extreme {
  template <typename T>
  FORESHOCK_MUTANT_INLINE static const T& Of(const T& a, const T& b) {
    return max != IsOn(n) ? (a < b ? b : a) : (b < a ? b : a);
  }
  template <typename T>
  FORESHOCK_MUTANT_INLINE static T Of(std::initializer_list<T> values) {
    T extreme = *values.begin();
    for (const T& value : values) extreme = Of<T>(extreme, value);
    return extreme;
  }
};

}  // namespace foreshock::mutation
