//! Macros that turn a table of fields into a message, so that encoder, decoder and test generator
//! always agree.

/// Declares a message: a struct whose fields are encoded in the order written here.
macro_rules! message {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$inner])* pub $field: $type),* }

        impl $crate::codec::Field for $name {
            const SMALLEST: usize = 0 $(+ <$type as $crate::codec::Field>::SMALLEST)*;
            #[allow(unused_variables)]
            fn put(&self, writer: &mut $crate::codec::Writer) {
                $($crate::codec::Field::put(&self.$field, writer);)*
            }
            #[allow(unused_variables)]
            fn take(reader: &mut $crate::codec::Reader<'_>) -> Result<Self,
                $crate::codec::Malformed> {
                Ok(Self { $($field: <$type as $crate::codec::Field>::take(reader)?),* })
            }
        }

        #[cfg(test)]
        impl $crate::types::arbitrary::Any for $name {
            fn any() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy;
                $crate::message::nested_strategies!($($type),*)
                    .prop_map(|$crate::message::nested_names!($($field),*)| Self { $($field),* })
                    .boxed()
            }
        }
    };
}

/// Declares an enum of messages, each with its operation number.
macro_rules! catalogue {
    ($(#[$outer:meta])* $name:ident {
        $($(#[$inner:meta])* $code:literal $variant:ident($message:ty)),* $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name { $($(#[$inner])* $variant($message)),* }

        impl $name {
            /// Returns the number of this message's operation.
            pub fn operation(&self) -> u16 {
                match self { $(Self::$variant(_) => $code),* }
            }

            /// Returns the operation's name, for logs and errors.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => stringify!($variant)),* }
            }

            /// Every operation number, in the order of the specification.
            pub const OPERATIONS: &'static [u16] = &[$($code),*];

            /// Returns the name of an operation, if the number is defined.
            pub fn name_of(operation: u16) -> Option<&'static str> {
                match operation { $($code => Some(stringify!($variant)),)* _ => None }
            }

            fn put_fields(&self, writer: &mut $crate::codec::Writer) {
                match self { $(Self::$variant(message) => $crate::codec::Field::put(message,
                    writer)),* }
            }

            fn take_fields(
                operation: u16,
                reader: &mut $crate::codec::Reader<'_>,
            ) -> Result<Self, $crate::codec::Malformed> {
                match operation {
                    $($code => {
                        Ok(Self::$variant(<$message as $crate::codec::Field>::take(reader)?))
                    })*
                    found => Err($crate::codec::Malformed::Undefined {
                        what: concat!(stringify!($name), " operation"),
                        at: 0,
                        found: found.into(),
                    }),
                }
            }
        }

        #[cfg(test)]
        impl $crate::types::arbitrary::Any for $name {
            fn any() -> proptest::strategy::BoxedStrategy<Self> {
                use proptest::strategy::Strategy;
                proptest::strategy::Union::new([
                    $(<$message as $crate::types::arbitrary::Any>::any().prop_map(Self::$variant)
                        .boxed()),*
                ]).boxed()
            }
        }
    };
}

/// Nested pairs, because tuples of strategies are limited to twelve.
#[cfg(test)]
macro_rules! nested_strategies {
    () => { proptest::strategy::Just(()) };
    ($first:ty $(, $rest:ty)*) => {
        (<$first as $crate::types::arbitrary::Any>::any(),
            $crate::message::nested_strategies!($($rest),*))
    };
}

/// The pattern that destructures [`nested_strategies`].
#[cfg(test)]
macro_rules! nested_names {
    () => { () };
    ($first:ident $(, $rest:ident)*) => { ($first, $crate::message::nested_names!($($rest),*)) };
}

pub(crate) use {catalogue, message};
#[cfg(test)]
pub(crate) use {nested_names, nested_strategies};
