// Entry point: mounts the app on the available host.

import "./styles/tokens.css";
import "./styles/contrast.css";
import "./styles/base.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { connect } from "./lib/host/connect";

const target = document.getElementById("app");
if (target) connect().then((host) => mount(App, { target, props: { host } }));
