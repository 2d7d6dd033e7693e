//! The wire in TypeScript: commands, the event name, default settings, and the types that they
//! need.

use super::*;
use std::path::PathBuf;
use ts_rs::{Config, TypeVisitor};

/// `ui/src/lib/host/wire.ts`: the interface of all commands, their calls, and the declarations of
/// all types that a command or an [`Event`] contains.
pub fn typescript() -> String {
    let mut module = Module::default();
    macro_rules! define {
        ($($implementor:ident { $(
            $(#[doc = $doc:literal])*
            fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;
        )* })*) => { $($(
            let arguments = [$((stringify!($argument), module.name::<$type>())),*];
            let result = module.name::<$result>();
            module.command(&[$($doc),*], stringify!($name), &arguments, &result);
        )*)* };
    }
    crate::commands!(define);
    module.name::<Event>();
    let settings = serde_json::to_string(&Settings::default()).expect("settings are plain data");
    let types: String = module.types.values().map(String::as_str).collect();
    let Module { interface, calls, .. } = module;
    format!(
        "// Generated from crates/app/src/wire; see crates/app/tests/it/wire.rs. Do not edit.

/** The app's commands. They reject with a {{@link Problem}}. */
export interface Commands {{
{interface}}}

/** Calls commands by their names and named arguments. */
export const commands = (invoke: <T>(command: string, named?: Record<string, unknown>) => Promise<T>): Commands => ({{
{calls}}});

/** The name of the Tauri event that carries every {{@link Event}}. */
export const EVENT_NAME = \"{EVENT_NAME}\";

/** The settings of a new installation. */
export const defaultSettings: Settings = {settings};
{types}"
    )
}

/// The parts of the TypeScript module.
struct Module {
    config: Config,
    /// Methods of the interface.
    interface: String,
    /// Methods of the implementation.
    calls: String,
    /// Declarations of types, sorted by their names: the order in which ts-rs visits dependencies
    /// differs between compilations.
    types: BTreeMap<String, String>,
}

impl Default for Module {
    fn default() -> Self {
        Self {
            config: Config::new().with_large_int("number"),
            interface: String::new(),
            calls: String::new(),
            types: BTreeMap::new(),
        }
    }
}

impl Module {
    /// The name of a type in TypeScript. Declares the type and the types in it.
    fn name<T: TS + 'static>(&mut self) -> String {
        T::visit_generics(self);
        self.visit::<T>();
        T::name(&self.config)
    }

    /// Adds a command: its documentation, name, arguments (name and TypeScript type) and result.
    fn command(&mut self, doc: &[&str], name: &str, arguments: &[(&str, String)], result: &str) {
        let doc: String = doc.concat();
        if !doc.is_empty() {
            self.interface += &format!("  /**{doc} */\n");
        }
        let names: Vec<String> = arguments.iter().map(|(name, _)| camel_case(name)).collect();
        let names = names.join(", ");
        let parameters = arguments.iter().map(|(name, ty)| format!("{}: {ty}", camel_case(name)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let method = camel_case(name);
        // `null` is the JSON of the unit type.
        let result = if result == "null" { "void" } else { result };
        self.interface += &format!("  {method}({parameters}): Promise<{result}>;\n");
        let named_arguments = if names.is_empty() {
            String::new()
        } else {
            format!(", {{ {names} }}")
        };
        self.calls += &format!("  {method}: ({names}) => invoke(\"{name}\"{named_arguments}),\n");
    }
}

impl TypeVisitor for Module {
    /// Declares a type and the types in it, unless it is declared already. Types of the standard
    /// library have no output path.
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // Maps have no identifier either.
        if T::output_path().is_none() {
            return;
        }
        let name = T::ident(&self.config);
        if self.types.contains_key(&name) {
            return;
        }
        let mut declaration = String::from("\nexport ");
        for line in T::decl(&self.config).lines() {
            declaration += line.trim_end();
            declaration.push('\n');
        }
        self.types.insert(name, declaration);
        T::visit_dependencies(self);
    }
}

/// Converts `load_settings` to `loadSettings`, as Tauri does for arguments.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut characters = word.chars();
        camel.extend(characters.next().map(|initial| initial.to_ascii_uppercase()));
        camel + characters.as_str()
    })
}
