import { testPlaces } from "./axe";
import { places } from "./places/settings";

testPlaces(places);
