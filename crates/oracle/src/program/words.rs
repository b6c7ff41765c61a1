//! Text form of values, for printing and replaying shrunk programs.
//!
//! A value is written without spaces: a word, a number, `name(field=value,...)`, or `[value;...]`.
//! [`Word`] is the pair of writing and reading; `worded` derives it for an enumeration whose
//! variants have named fields.

/// A value that can be written as one word without spaces, and parsed back.
pub trait Word: Sized {
    /// Appends the word.
    fn put(&self, text: &mut String);
    /// Parses the whole of `text`.
    ///
    /// # Errors
    ///
    /// `text` has another form; returns the expected one.
    fn take(text: &str) -> Result<Self, String>;

    /// Returns the word.
    fn word(&self) -> String {
        let mut text = String::new();
        self.put(&mut text);
        text
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Word for $type {
            fn put(&self, text: &mut String) {
                text.push_str(&self.to_string());
            }
            fn take(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("expected a number, found `{text}`"))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64);

impl Word for bool {
    fn put(&self, text: &mut String) {
        text.push_str(if *self { "yes" } else { "no" });
    }
    fn take(text: &str) -> Result<Self, String> {
        match text {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(format!("expected yes or no, found `{text}`")),
        }
    }
}

impl<T: Word> Word for Option<T> {
    fn put(&self, text: &mut String) {
        match self {
            Some(value) => value.put(text),
            None => text.push_str("none"),
        }
    }
    fn take(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(None);
        }
        T::take(text).map(Some)
    }
}

impl<T: Word> Word for Vec<T> {
    fn put(&self, text: &mut String) {
        text.push('[');
        for (index, item) in self.iter().enumerate() {
            if index > 0 {
                text.push(';');
            }
            item.put(text);
        }
        text.push(']');
    }
    fn take(text: &str) -> Result<Self, String> {
        let inner = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
            .ok_or_else(|| format!("expected [..], found `{text}`"))?;
        pieces(inner, ';').into_iter().map(T::take).collect()
    }
}

/// Splits at separators outside parentheses and brackets; returns no pieces for "".
pub fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    if text.is_empty() {
        return found;
    }
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ if letter == separator && depth == 0 => {
                found.push(&text[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found
}

/// The name and the fields of `name(field=value,...)`; a bare `name` has none.
pub struct Call<'a> {
    /// The text before the parenthesis.
    pub name: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Call<'a> {
    /// Parses a call.
    ///
    /// # Errors
    ///
    /// A message for an unbalanced parenthesis or a field without `=`.
    pub fn parse(text: &'a str) -> Result<Call<'a>, String> {
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(Call {
                name: text,
                fields: Vec::new(),
            });
        };
        let inner = rest
            .strip_suffix(')')
            .ok_or_else(|| format!("no `)` at the end of `{text}`"))?;
        let fields = pieces(inner, ',')
            .into_iter()
            .map(|piece| {
                piece
                    .split_once('=')
                    .ok_or_else(|| format!("expected name=value, found `{piece}`"))
            })
            .collect::<Result<_, _>>()?;
        Ok(Call { name, fields })
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    ///
    /// The field is missing or invalid.
    pub fn field<T: Word>(&self, name: &str) -> Result<T, String> {
        let value = self.fields.iter().find(|(key, _)| *key == name);
        let (_, value) = value.ok_or_else(|| format!("`{}` needs {name}=", self.name))?;
        T::take(value).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns the value of an optional field.
    ///
    /// # Errors
    ///
    /// The field is invalid.
    pub fn optional<T: Word>(&self, name: &str) -> Result<Option<T>, String> {
        if self.fields.iter().any(|(key, _)| *key == name) {
            return self.field(name);
        }
        Ok(None)
    }
}

/// Appends `name=value`, with a comma before it unless it is the first.
pub fn put_field<T: Word>(text: &mut String, first: &mut bool, name: &str, value: &T) {
    if !std::mem::take(first) {
        text.push(',');
    }
    text.push_str(name);
    text.push('=');
    value.put(text);
}

/// Defines an enumeration with named fields, its variants' words, and its [`Word`] implementation.
macro_rules! worded {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $($(#[$variant_meta:meta])* $Variant:ident = $word:literal
            { $($(#[$field_meta:meta])* $field:ident : $type:ty),* $(,)? },)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the fields are the verbs' own parameters")]
        $vis enum $Name {
            $($(#[$variant_meta])* $Variant { $($(#[$field_meta])* $field: $type),* },)*
        }

        impl $Name {
            /// The word of each variant, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// Returns the word of this variant.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$Variant { .. } => $word,)* }
            }
        }

        impl $crate::program::words::Word for $Name {
            fn put(&self, text: &mut String) {
                text.push_str(self.name());
                match self {
                    $(Self::$Variant { $($field),* } => {
                        #[allow(unused_mut, unused_variables)]
                        let mut first = true;
                        text.push('(');
                        $($crate::program::words::put_field(
                            text, &mut first, stringify!($field), $field);)*
                        text.push(')');
                    })*
                }
            }
            fn take(text: &str) -> Result<Self, String> {
                let call = $crate::program::words::Call::parse(text)?;
                match call.name {
                    $($word => {
                        Ok(Self::$Variant { $($field: call.field(stringify!($field))?),* })
                    })*
                    other => Err(format!("`{other}` is unknown; expected {}",
                        Self::WORDS.join(", "))),
                }
            }
        }
    };
}
pub(crate) use worded;

/// Defines a plain enumeration and its words.
macro_rules! choice {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident {
        $($(#[$variant_meta:meta])* $Variant:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $Name { $($(#[$variant_meta])* $Variant,)* }

        impl $crate::program::words::Word for $Name {
            fn put(&self, text: &mut String) {
                text.push_str(match self { $(Self::$Variant => $word,)* });
            }
            fn take(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$Variant),)*
                    _ => Err(format!("`{text}` is unknown; expected {}", [$($word),*].join(", "))),
                }
            }
        }
    };
}
pub(crate) use choice;

/// Defines a set of bits with a word each, joined by `+`; the empty set is `-`.
macro_rules! bits {
    ($(#[$meta:meta])* $vis:vis struct $Name:ident {
        $($(#[$bit_meta:meta])* $BIT:ident = $bit:expr, $word:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        $vis struct $Name(pub u32);

        impl $Name {
            /// The empty set.
            pub const NONE: $Name = $Name(0);
            $($(#[$bit_meta])* pub const $BIT: $Name = $Name($bit);)*

            /// Returns whether the set contains every bit of `other`.
            pub fn has(self, other: $Name) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl std::ops::BitOr for $Name {
            type Output = $Name;
            fn bitor(self, other: $Name) -> $Name {
                $Name(self.0 | other.0)
            }
        }

        impl $crate::program::words::Word for $Name {
            fn put(&self, text: &mut String) {
                let words: Vec<&str> =
                    [$((Self::$BIT, $word)),*].iter().filter(|(bit, _)| self.has(*bit))
                        .map(|(_, word)| *word).collect();
                text.push_str(if words.is_empty() { "-" } else { "" });
                text.push_str(&words.join("+"));
            }
            fn take(text: &str) -> Result<Self, String> {
                let mut set = Self::NONE;
                for word in text.split('+').filter(|word| *word != "-") {
                    set = set | match word {
                        $($word => Self::$BIT,)*
                        _ => return Err(format!("`{word}` is unknown; expected {}",
                            [$($word),*].join(", "))),
                    };
                }
                Ok(set)
            }
        }
    };
}
pub(crate) use bits;

/// Defines a numbered identifier of one kind of object: `qp3`.
macro_rules! identity {
    ($($(#[$meta:meta])* $Name:ident = $prefix:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $Name(pub u16);

        impl $crate::program::words::Word for $Name {
            fn put(&self, text: &mut String) {
                text.push_str($prefix);
                text.push_str(&self.0.to_string());
            }
            fn take(text: &str) -> Result<Self, String> {
                text.strip_prefix($prefix).and_then(|number| number.parse().ok()).map($Name)
                    .ok_or_else(|| format!(concat!("expected ", $prefix, "N, found `{}`"), text))
            }
        }
    )*};
}
pub(crate) use identity;
