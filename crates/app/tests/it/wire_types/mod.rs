//! The types that come over the wire and the protocol, read from their sources.

use std::{fs, path::Path};
use syn::{Attribute, Fields, Item, Type};

/// Folders and files with the types of the protocol and of the wire.
const SOURCES: [&str; 4] = [
    "../protocol/src",
    "src/wire",
    "src/store/message.rs",
    "src/store/search.rs",
];

/// A struct or a variant of an enum.
#[derive(Clone)]
pub struct Owner {
    /// Name of the type.
    pub ty: String,
    /// Name of the variant. `None` for a struct.
    pub variant: Option<String>,
    /// Each field's name, and the names of all types in its type: `Option` and `String`.
    pub fields: Vec<(String, Vec<String>)>,
}

impl Owner {
    /// `Type` or `Type::Variant`.
    pub fn name(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}::{variant}", self.ty),
            None => self.ty.clone(),
        }
    }
}

/// All types that derive `Serialize`.
pub fn owners() -> Vec<Owner> {
    let mut owners = Vec::new();
    for source in SOURCES {
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(source), &mut owners);
    }
    owners
}

/// Adds the types of a file, or of the files in a folder.
fn read(path: &Path, owners: &mut Vec<Owner>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder");
        entries.for_each(|entry| read(&entry.expect("an entry").path(), owners));
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let text = fs::read_to_string(path).expect("a source");
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for item in file.items {
            read_item(&item, owners);
        }
    }
}

fn read_item(item: &Item, owners: &mut Vec<Owner>) {
    match item {
        Item::Struct(item) if is_serialized(&item.attrs) => owners.push(Owner {
            ty: item.ident.to_string(),
            variant: None,
            fields: read_fields(&item.fields),
        }),
        Item::Enum(item) if is_serialized(&item.attrs) => {
            owners.extend(item.variants.iter().map(|variant| Owner {
                ty: item.ident.to_string(),
                variant: Some(variant.ident.to_string()),
                fields: read_fields(&variant.fields),
            }));
        }
        _ => {}
    }
}

/// Whether a type derives `Serialize`.
fn is_serialized(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut derives = false;
        if attribute.path().is_ident("derive") {
            // A derive is a list of paths.
            let _ = attribute.parse_nested_meta(|meta| {
                derives |= meta.path.is_ident("Serialize");
                Ok(())
            });
        }
        derives
    })
}

fn read_fields(fields: &Fields) -> Vec<(String, Vec<String>)> {
    let field = |(number, field): (usize, &syn::Field)| {
        let name = field
            .ident
            .as_ref()
            .map_or_else(|| number.to_string(), ToString::to_string);
        let mut types = Vec::new();
        read_type(&field.ty, &mut types);
        (name, types)
    };
    fields.iter().enumerate().map(field).collect()
}

/// Adds the names in a type: `Option`, `Vec` and `String` of `Option<Vec<String>>`.
fn read_type(ty: &Type, names: &mut Vec<String>) {
    let Type::Path(path) = ty else { return };
    for segment in &path.path.segments {
        names.push(segment.ident.to_string());
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
            for argument in &arguments.args {
                if let syn::GenericArgument::Type(ty) = argument {
                    read_type(ty, names);
                }
            }
        }
    }
}
