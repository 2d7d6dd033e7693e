//! The page's commands: Tauri's form of the table in `hearth_app`.

use crate::window_commands;
use hearth_app::App;
use hearth_app::wire::*;
use std::path::PathBuf;
use tauri::ipc::Invoke;
use tauri::{AppHandle, State, Wry, command};

macro_rules! define {
    (
        app { $(
            $(#[doc = $app_doc:literal])*
            fn $use_case:ident($($use_case_argument:ident: $use_case_type:ty),*) -> $use_case_result:ty;
        )* }
        window { $(
            $(#[doc = $window_doc:literal])*
            fn $function:ident($($argument:ident: $type:ty),*) -> $result:ty;
        )* }
    ) => {
        $(
            #[command]
            async fn $use_case(
                app: State<'_, App>,
                $($use_case_argument: $use_case_type),*
            ) -> Result<$use_case_result, Problem> {
                app.$use_case($($use_case_argument),*).await
            }
        )*
        $(
            #[command]
            async fn $function(window: AppHandle, $($argument: $type),*) -> Result<$result, Problem> {
                window_commands::$function(window, $($argument),*).await
            }
        )*

        /// Tauri's handler of all commands.
        pub fn handler() -> impl Fn(Invoke<Wry>) -> bool + Send + Sync + 'static {
            tauri::generate_handler![$($use_case,)* $($function),*]
        }
    };
}

hearth_app::commands!(define);
