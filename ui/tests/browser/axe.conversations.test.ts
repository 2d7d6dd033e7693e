import { testPlaces } from "./axe";
import { places } from "./places/conversations";

testPlaces(places);
